//! Connections of local sockets: names, listening, connecting, accepting.

use super::peer::Identity;
use super::{Kind, Sock, bound, name::Name};
use crate::fs::inode::Inode;
use crate::mm::reserve::room_behind;
use crate::task::ns::net::NetRef;
use alloc::sync::{Arc, Weak};
use core::any::Any;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

impl Sock {
    /// Makes two connected sockets.
    pub fn pair(kind: Kind) -> (Arc<Self>, Arc<Self>) {
        let net = NetRef::of_current();
        let (a, b) = (Self::new(kind, net.clone()), Self::new(kind, net));
        let identity = Identity::own();
        a.set_peer(&b, identity.clone());
        b.set_peer(&a, identity);
        (a, b)
    }

    fn set_peer(&self, peer: &Arc<Sock>, identity: Identity) {
        let mut s = self.state.lock();
        s.peer = Arc::downgrade(peer);
        s.connected = true;
        s.identity = identity;
    }

    /// Connects a stream socket that is not connected.
    fn join(&self, peer: &Arc<Sock>, identity: Identity) -> Result<(), Errno> {
        let mut s = self.state.lock();
        if s.backlog.is_some() {
            return Err(Errno::EINVAL);
        }
        if s.connected {
            return Err(Errno::EISCONN);
        }
        s.peer = Arc::downgrade(peer);
        s.connected = true;
        s.identity = identity;
        Ok(())
    }

    /// Ends the connection to its peer.
    pub fn leave(&self) {
        {
            let mut s = self.state.lock();
            s.peer = Weak::new();
            s.connected = false;
        }
        self.tell_room();
    }

    /// `bind`: to an abstract name, or to `inode`, which was made at a path for this.
    pub fn bind(self: &Arc<Self>, name: Name, inode: Option<&Inode>) -> Result<(), Errno> {
        let mut s = self.state.lock();
        if s.name.is_some() {
            return Err(Errno::EINVAL);
        }
        s.name = Some(name.clone());
        drop(s);
        match inode {
            Some(inode) => {
                let me: Arc<dyn Any + Send + Sync> = self.clone();
                drop(inode.socket.replace(Some(Arc::new(Arc::downgrade(&me)))));
            }
            None => {
                if let Err(e) = bound::claim(name, self) {
                    self.state.lock().name = None;
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    /// `listen`.
    pub fn listen(&self, backlog: i32) -> Result<(), Errno> {
        if self.kind == Kind::Datagram {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut s = self.state.lock();
        if s.connected || s.name.is_none() {
            return Err(Errno::EINVAL);
        }
        let most = self.net.settings().max_backlog.load(Ordering::Relaxed);
        s.backlog = Some((backlog as u32).min(most as u32) as usize);
        s.identity = Identity::own();
        Ok(())
    }

    /// `connect` to the socket that is bound to a name.
    pub fn connect(self: &Arc<Self>, to: &Arc<Sock>, nonblock: bool) -> Result<(), Errno> {
        if self.kind == Kind::Datagram {
            if !to.state.lock().hears(self) {
                return Err(Errno::EPERM);
            }
            self.set_peer(to, Identity::default());
            // The queue of the former peer may have been full.
            self.tell_room();
            return Ok(());
        }
        loop {
            // The two are never locked at the same time: each may just be connecting to the other, or both
            // may be one socket.
            let l = to.state.lock();
            if !l.accepts() {
                return Err(Errno::ECONNREFUSED);
            }
            if l.has_room() {
                let (name, pass_cred, identity) = (l.name.clone(), l.pass_cred, l.identity.clone());
                drop(l);
                let server = Sock::new(self.kind, to.net.clone());
                {
                    let mut s = server.state.lock();
                    s.name = name;
                    s.pass_cred = pass_cred;
                }
                server.set_peer(self, Identity::own());
                self.join(&server, identity)?;
                let l = room_behind(|| to.state.lock(), |l| &mut l.pending, 1);
                let Ok(mut l) = l else {
                    self.leave();
                    return Err(Errno::ENOMEM);
                };
                if l.has_room() {
                    l.pending.push_back(server);
                    drop(l);
                    to.tell_news();
                    return Ok(());
                }
                drop(l);
                self.leave();
                continue;
            }
            drop(l);
            if nonblock {
                return Err(Errno::EAGAIN);
            }
            to.room_wait.wait_until(|| {
                let l = to.state.lock();
                !l.accepts() || l.has_room()
            })?;
        }
    }

    /// `accept`.
    pub fn accept(&self, nonblock: bool) -> Result<Arc<Sock>, Errno> {
        loop {
            let mut s = self.state.lock();
            if s.backlog.is_none() {
                return Err(if self.kind == Kind::Datagram {
                    Errno::EOPNOTSUPP
                } else {
                    Errno::EINVAL
                });
            }
            if let Some(sock) = s.pending.pop_front() {
                drop(s);
                self.room_wait.wake_all();
                return Ok(sock);
            }
            if s.shut_in {
                return Err(Errno::EINVAL);
            }
            drop(s);
            self.sleep(&self.read_wait, true, self.timeout(0), nonblock, |s| {
                !s.pending.is_empty() || s.shut_in
            })?;
        }
    }
}
