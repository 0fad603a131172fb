//! Datagrams of the kernel for which a socket keeps room until they are sent.

use super::super::queue::Datagram;
use super::Socket;
use crate::fs::fasync::Band;
use crate::mm::reserve::room_behind;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// A datagram of the kernel for which a socket has kept room. It may be sent later, once.
pub struct Held {
    socket: Arc<Socket>,
    /// `None`: it was sent.
    datagram: Option<Datagram>,
}

impl Held {
    /// Sends it after a change. If there is no memory the program is told of a loss. May sleep for memory.
    pub fn send(mut self, change: impl FnOnce(&mut [u8])) {
        let Some(mut datagram) = self.datagram.take() else {
            return;
        };
        change(&mut datagram.data);
        let socket = &self.socket;
        let locked = room_behind(|| socket.state.lock(), |state| state.queue.list(), 1);
        let Ok(mut state) = locked else {
            socket.state.lock().queue.let_go(&datagram);
            socket.overrun();
            return;
        };
        state.queue.let_go(&datagram);
        if !state.closed {
            state.queue.push(datagram);
        }
        drop(state);
        socket.news.wake_one();
        socket.owners.tell(Band::In);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(datagram) = &self.datagram {
            self.socket.state.lock().queue.let_go(datagram);
            self.socket.room.wake_all();
        }
    }
}

impl Socket {
    /// Keeps room for a datagram of the kernel that comes later. If there is none, waits for room and gives
    /// the datagram back: the program may have closed the socket meanwhile, so the caller looks for it again.
    /// `ERESTARTSYS`. May sleep.
    pub fn hold(self: Arc<Self>, datagram: Datagram) -> Result<Result<Held, Datagram>, Errno> {
        let mut state = self.state.lock();
        if !state.closed && state.queue.has_room() {
            state.queue.hold(&datagram);
            drop(state);
            return Ok(Ok(Held {
                socket: self,
                datagram: Some(datagram),
            }));
        }
        drop(state);
        self.room.wait_until(|| {
            let state = self.state.lock();
            state.closed || state.queue.has_room()
        })?;
        Ok(Err(datagram))
    }
}
