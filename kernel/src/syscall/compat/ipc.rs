//! System V IPC and POSIX message queues: structures and messages with words of 32 bits.

use super::super::ipc::{self, Operations, control_messages, control_semaphores, control_shared};
use super::super::mqueue;
use crate::ipc::{msg, sem, shm};
use crate::mm::user::{Abi, UserPtr};
use limen_linux_abi::abi::compat::{Msqid64Ds, Semid64Ds, ShmInfo, Shmid64Ds, Shminfo64};
use limen_linux_abi::{Errno, SysResult};

fn shared(id: i32, number: i32, at: usize, versions: bool) -> SysResult {
    let read = || Ok(UserPtr::<Abi<Shmid64Ds>>::new(at).read()?.0.perm());
    let (result, out) = control_shared(id, number, versions, read)?;
    match out {
        shm::Out::Nothing => {}
        shm::Out::Limits(limits) => ipc::put(at, Shminfo64::cut(&limits))?,
        shm::Out::Info(info) => ipc::put(at, ShmInfo::cut(&info))?,
        shm::Out::Segment(segment) => ipc::put(at, Shmid64Ds::new(&segment))?,
    }
    Ok(result)
}

fn semaphores(id: i32, which: i32, number: i32, arg: usize, versions: bool) -> SysResult {
    let read = || Ok(UserPtr::<Abi<Semid64Ds>>::new(arg).read()?.0.perm());
    let write = |set: &_| ipc::put(arg, Semid64Ds::new(set));
    control_semaphores(id, which, (number, versions), arg, read, write)
}

fn messages(id: i32, number: i32, at: usize, versions: bool) -> SysResult {
    let read = || {
        let new = UserPtr::<Abi<Msqid64Ds>>::new(at).read()?.0;
        Ok((new.perm(), new.max_bytes()))
    };
    let write = |queue: &_| ipc::put(at, Msqid64Ds::new(queue));
    control_messages(id, number, versions, at, read, write)
}

/// A length that is signed: a negative one is too long.
fn length(len: i32) -> usize {
    len as isize as usize
}

fn attach(id: i32, addr: usize, flags: u32) -> SysResult {
    shm::attach::<true>(id, addr, flags)
}

/// `ipc`: the call `which`, whose upper half is a version.
fn multiplexed([which, first, second, third, at, fifth]: [usize; 6]) -> SysResult {
    let (which, version) = (which & 0xffff, which as u32 >> 16);
    let id = first as i32;
    let operations = Operations {
        at,
        count: second as u32,
        padded: false,
    };
    match which {
        1 => ipc::operate(id, operations, None::<UserPtr<[i32; 2]>>),
        2 => sem::get(id, second as i32, third as u32),
        3 if at == 0 => Err(Errno::EINVAL),
        3 => {
            let arg = UserPtr::<u32>::new(at).read()? as usize;
            semaphores(id, second as i32, third as i32, arg, true)
        }
        4 => ipc::operate(id, operations, UserPtr::<[i32; 2]>::new(fifth).non_null()),
        11 => ipc::send::<i32>(id, at, length(second as i32), third as u32),
        12 if id < 0 || (second as i32) < 0 => Err(Errno::EINVAL),
        12 if version != 0 => ipc::receive::<i32>(id, at, second, fifth as i32 as isize, third as u32),
        12 if at == 0 => Err(Errno::EINVAL),
        12 => {
            let [to, kind] = UserPtr::<[u32; 2]>::new(at).read()?;
            ipc::receive::<i32>(id, to as usize, second, kind as i32 as isize, third as u32)
        }
        13 => msg::get(id, second as u32),
        14 => messages(id, second as i32, at, true),
        21 if version == 1 => Err(Errno::EINVAL),
        21 => {
            let place = attach(id, at, second as u32)?;
            UserPtr::new(third).write(place as u32)?;
            Ok(0)
        }
        22 => shm::detach(at),
        23 => shm::get(id, second, third as u32),
        24 => shared(id, second as i32, at, true),
        _ => Err(Errno::ENOSYS),
    }
}

crate::syscalls! {
    fn ipc(which: usize, first: usize, second: usize, third: usize, at: usize, fifth: usize) {
        multiplexed([which, first, second, third, at, fifth])
    }
    fn shmat(id: i32, addr: usize, flags: u32) {
        attach(id, addr, flags)
    }
    fn shmctl(id: i32, number: i32, at: usize) {
        shared(id, number, at, false)
    }
    fn semctl(id: i32, which: i32, number: i32, arg: usize) {
        semaphores(id, which, number, arg, false)
    }
    fn msgsnd(id: i32, at: usize, len: i32, flags: u32) {
        ipc::send::<i32>(id, at, length(len), flags)
    }
    fn msgrcv(id: i32, at: usize, room: i32, kind: i32, flags: u32) {
        ipc::receive::<i32>(id, at, length(room), kind as isize, flags)
    }
    fn msgctl(id: i32, number: i32, at: usize) {
        messages(id, number, at, false)
    }
    fn mq_open(name: usize, flags: u32, mode: u16, attributes: UserPtr<[i32; 8]>) {
        mqueue::open(name, flags, mode, attributes)
    }
    fn mq_notify(fd: i32, at: usize) {
        mqueue::notify::<u32>(fd, at)
    }
    fn mq_getsetattr(fd: i32, new: UserPtr<[i32; 8]>, old: UserPtr<[i32; 8]>) {
        mqueue::get_and_set(fd, new, old)
    }
}
