//! System calls of System V IPC, and the one that is all of them (`ipc`).

use super::time::{TimeWord, deadline_after, read_timespec};
use super::{Call, SysResult};
use crate::arch::frame::Frame;
use crate::ipc::{Permissions, msg, sem, shm};
use crate::mm::copy::zeroed;
use crate::mm::reserve;
use crate::mm::user::{self, Abi, Long, UserPtr};
use alloc::vec::Vec;
use limen_linux_abi::abi::ipc::{Messages, OldSembuf, Semaphores, Sembuf};
use limen_linux_abi::native::{IPC_PARSE_VERSION, Msqid64Ds, Semid64Ds, Shmid64Ds};
use limen_linux_abi::{Errno, Layout};

/// Commands have this bit if the structures are the new ones.
const IPC_64: i32 = 0x100;

/// Command `number` without the bit for the structures. `versions`: whether it says which they are. `EINVAL`:
/// it is about an old structure; nobody has these for 25 years. `plain`: the commands without such.
fn command(number: i32, versions: bool, plain: &[i32]) -> Result<i32, Errno> {
    if !versions {
        return Ok(number);
    }
    let new = number & IPC_64 != 0;
    let number = number & !IPC_64;
    if new || plain.contains(&number) {
        Ok(number)
    } else {
        Err(Errno::EINVAL)
    }
}

/// The commands of `shmctl`, `semctl` and `msgctl` that need no structure, or one that was always the same.
const SHM_PLAIN: &[i32] = &[0, 11, 12, 14];
const SEM_PLAIN: &[i32] = &[0, 3, 11, 12, 13, 14, 15, 16, 17, 19];
const MSG_PLAIN: &[i32] = &[0, 3, 12];

pub(super) fn put<T: Layout>(at: usize, value: T) -> Result<(), Errno> {
    UserPtr::new(at).write(Abi(value))
}

/// `shmctl`, but for what it writes. `read` reads new permissions.
#[inline(always)]
pub(super) fn control_shared(
    id: i32,
    number: i32,
    versions: bool,
    read: impl FnOnce() -> Result<Permissions, Errno>,
) -> Result<(usize, shm::Out), Errno> {
    let command = shm::Command::new(command(number, versions, SHM_PLAIN)?)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let new = match command {
        shm::Command::Set => read()?,
        _ => Permissions::default(),
    };
    shm::control(id, &command, &new)
}

fn shm_control(id: i32, number: i32, at: usize, versions: bool) -> SysResult {
    let read = || Ok(UserPtr::<Abi<Shmid64Ds>>::new(at).read()?.0.perm());
    let (result, out) = control_shared(id, number, versions, read)?;
    match out {
        shm::Out::Nothing => {}
        shm::Out::Limits(limits) => put(at, limits)?,
        shm::Out::Info(info) => put(at, info)?,
        shm::Out::Segment(segment) => put(at, Shmid64Ds::new(&segment))?,
    }
    Ok(result)
}

fn read_values(at: usize, count: usize) -> Result<Vec<u16>, Errno> {
    let mut bytes = zeroed(count * 2)?;
    user::read_bytes(&mut bytes, at)?;
    let mut values = Vec::new();
    reserve::room_exact(&mut values, count)?;
    let pairs = bytes.chunks_exact(2);
    values.extend(pairs.map(|pair| u16::from_ne_bytes([pair[0], pair[1]])));
    Ok(values)
}

fn write_values(at: usize, values: &[u16]) -> Result<(), Errno> {
    let mut bytes = Vec::new();
    reserve::room_exact(&mut bytes, values.len() * 2)?;
    bytes.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    user::write_bytes(at, &bytes)
}

/// `semctl`. `read` reads new permissions, `write` writes what a set is like.
#[inline(always)]
pub(super) fn control_semaphores(
    id: i32,
    which: i32,
    (number, versions): (i32, bool),
    arg: usize,
    read: impl FnOnce() -> Result<Permissions, Errno>,
    write: impl FnOnce(&Semaphores) -> Result<(), Errno>,
) -> SysResult {
    let command = sem::Command::new(command(number, versions, SEM_PLAIN)?)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let new = match command {
        sem::Command::SetValue => return sem::set_value(id, which, arg as i32),
        sem::Command::SetAll => return sem::set_all(id, |count| read_values(arg, count)),
        sem::Command::Set => read()?,
        _ => Permissions::default(),
    };
    let (result, out) = sem::control(id, which, command, &new)?;
    match out {
        sem::Out::Nothing => {}
        sem::Out::Info(info) => put(arg, info)?,
        sem::Out::Set(set) => write(&set)?,
        sem::Out::Values(values) => write_values(arg, &values)?,
    }
    Ok(result)
}

fn sem_control(id: i32, which: i32, number: i32, arg: usize, versions: bool) -> SysResult {
    let read = || Ok(UserPtr::<Abi<Semid64Ds>>::new(arg).read()?.0.perm());
    let write = |set: &_| put(arg, Semid64Ds::new(set));
    control_semaphores(id, which, (number, versions), arg, read, write)
}

/// `msgctl`. `read` reads new permissions and a new limit, `write` writes what a queue is like.
#[inline(always)]
pub(super) fn control_messages(
    id: i32,
    number: i32,
    versions: bool,
    at: usize,
    read: impl FnOnce() -> Result<(Permissions, u64), Errno>,
    write: impl FnOnce(&Messages) -> Result<(), Errno>,
) -> SysResult {
    let command = msg::Command::new(command(number, versions, MSG_PLAIN)?)?;
    if id < 0 {
        return Err(Errno::EINVAL);
    }
    let new = match command {
        msg::Command::Set => read()?,
        _ => (Permissions::default(), 0),
    };
    let (result, out) = msg::control(id, &command, &new)?;
    match out {
        msg::Out::Nothing => {}
        msg::Out::Info(info) => put(at, info)?,
        msg::Out::Queue(queue) => write(&queue)?,
    }
    Ok(result)
}

fn msg_control(id: i32, number: i32, at: usize, versions: bool) -> SysResult {
    let read = || {
        let new = UserPtr::<Abi<Msqid64Ds>>::new(at).read()?.0;
        Ok((new.perm(), new.max_bytes()))
    };
    let write = |queue: &_| put(at, Msqid64Ds::new(queue));
    control_messages(id, number, versions, at, read, write)
}

/// Where a call's operations lie: `padded` is how the ABI before Arm's EABI has them.
#[derive(Clone, Copy)]
pub(super) struct Operations {
    pub at: usize,
    pub count: u32,
    pub padded: bool,
}

impl Operations {
    /// `E2BIG`, `EINVAL`: so many cannot be done; `ENOMEM`, `EFAULT`.
    fn read(self) -> Result<Vec<Sembuf>, Errno> {
        let count = self.count as usize;
        // A negative limit is none, as on Linux.
        if self.count > sem::most_operations() as u32 {
            return Err(Errno::E2BIG);
        }
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        let mut list = Vec::new();
        reserve::room_exact(&mut list, count)?;
        for n in 0..count {
            list.push(if self.padded {
                let op = UserPtr::<Abi<OldSembuf>>::new(self.at).add(n).read()?.0;
                Sembuf {
                    sem_num: op.sem_num,
                    sem_op: op.sem_op,
                    sem_flg: op.sem_flg,
                }
            } else {
                UserPtr::<Abi<Sembuf>>::new(self.at).add(n).read()?.0
            });
        }
        Ok(list)
    }
}

/// `semtimedop`; `semop` without `timeout`.
pub(super) fn operate<T: TimeWord>(
    id: i32,
    operations: Operations,
    timeout: Option<UserPtr<[T; 2]>>,
) -> SysResult {
    let timeout = match timeout.map(read_timespec) {
        // A time that is none is found last.
        Some(Err(Errno::EFAULT)) => return Err(Errno::EFAULT),
        timeout => timeout,
    };
    let list = operations.read()?;
    let deadline = timeout.transpose()?.map(deadline_after);
    sem::operate(id, list, deadline)
}

/// `msgsnd`. The message's kind is a `long`, `K`.
pub(super) fn send<K: Long>(id: i32, at: usize, len: usize, flags: u32) -> SysResult {
    let kind = UserPtr::<K>::new(at).read()?.wide();
    msg::check_sent(id, kind, len)?;
    let mut text = zeroed(len)?;
    user::read_bytes(&mut text, at.wrapping_add(size_of::<K>()))?;
    msg::send(id, msg::Message { kind, text }, flags)
}

/// `msgrcv`, as [`send`].
pub(super) fn receive<K: Long>(id: i32, at: usize, room: usize, kind: isize, flags: u32) -> SysResult {
    let read = msg::check_received(id, room, flags)?;
    if read != 0 {
        user::read_bytes(&mut zeroed(read)?, at)?;
    }
    let message = msg::receive(id, room, kind, flags)?;
    UserPtr::new(at).write(K::cut(message.kind))?;
    let text = &message.text[..room.min(message.text.len())];
    user::write_bytes(at.wrapping_add(size_of::<K>()), text)?;
    Ok(text.len())
}

/// `ipc`: the call `which`, whose upper half is a version. `padded`: as for [`Operations`].
pub(super) fn multiplexed(call: &Call<'_>, padded: bool) -> SysResult {
    let frame: &Frame = call.frame;
    let [which, first, second, third, at, fifth] = core::array::from_fn(|n| frame.arg(n));
    let (which, version) = (which & 0xffff, which as u32 >> 16);
    let id = first as i32;
    let operations = Operations {
        at,
        count: second as u32,
        padded,
    };
    let time = UserPtr::<[isize; 2]>::new(fifth);
    match which {
        1 => operate(id, operations, None::<UserPtr<[isize; 2]>>),
        2 => sem::get(id, second as i32, third as u32),
        3 if at == 0 => Err(Errno::EINVAL),
        3 => {
            let arg = UserPtr::<usize>::new(at).read()?;
            sem_control(id, second as i32, third as i32, arg, true)
        }
        4 => operate(id, operations, time.non_null()),
        11 => send::<isize>(id, at, second, third as u32),
        12 if version != 0 => receive::<isize>(id, at, second, fifth as isize, third as u32),
        12 if at == 0 => Err(Errno::EINVAL),
        12 => {
            let [to, kind] = UserPtr::<[usize; 2]>::new(at).read()?;
            receive::<isize>(id, to, second, kind as isize, third as u32)
        }
        13 => msg::get(id, second as u32),
        14 => msg_control(id, second as i32, at, true),
        21 if version == 1 => Err(Errno::EINVAL),
        21 => {
            let place = shm::attach::<false>(id, at, second as u32)?;
            UserPtr::new(third).write(place)?;
            Ok(0)
        }
        22 => shm::detach(at),
        23 => shm::get(id, second, third as u32),
        24 => shm_control(id, second as i32, at, true),
        _ => Err(Errno::ENOSYS),
    }
}

crate::syscalls! {
    fn shmget(key: i32, size: usize, flags: u32) {
        shm::get(key, size, flags)
    }
    fn shmat(id: i32, addr: usize, flags: u32) {
        shm::attach::<false>(id, addr, flags)
    }
    fn shmdt(addr: usize) {
        shm::detach(addr)
    }
    fn shmctl(id: i32, number: i32, at: usize) {
        shm_control(id, number, at, IPC_PARSE_VERSION)
    }
    fn semget(key: i32, count: i32, flags: u32) {
        sem::get(key, count, flags)
    }
    fn semop(id: i32, at: usize, count: u32) {
        operate(id, Operations { at, count, padded: false }, None::<UserPtr<[isize; 2]>>)
    }
    fn semtimedop/semtimedop_time64(id: i32, at: usize, count: u32, timeout: UserPtr<[Time; 2]>) {
        operate(id, Operations { at, count, padded: false }, timeout.non_null())
    }
    fn semctl(id: i32, which: i32, number: i32, arg: usize) {
        sem_control(id, which, number, arg, IPC_PARSE_VERSION)
    }
    fn msgget(key: i32, flags: u32) {
        msg::get(key, flags)
    }
    fn msgsnd(id: i32, at: usize, len: usize, flags: u32) {
        send::<isize>(id, at, len, flags)
    }
    fn msgrcv(id: i32, at: usize, room: usize, kind: isize, flags: u32) {
        receive::<isize>(id, at, room, kind, flags)
    }
    fn msgctl(id: i32, number: i32, at: usize) {
        msg_control(id, number, at, IPC_PARSE_VERSION)
    }
    fn ipc(call: &mut Call) {
        multiplexed(call, false)
    }
}
