//! inotify.

use crate::fs::dentry::Dentry;
use crate::fs::file::File;
use crate::fs::inode::Inode;
use alloc::sync::Arc;

/// One watch.
pub struct Watch;

/// An entry was made.
pub fn created(dir: &Inode, child: &Arc<Dentry>) {
    let _ = (dir, child);
}
/// An entry was removed.
pub fn removed(dir: &Inode, child: &Arc<Dentry>) {
    let _ = (dir, child);
}
/// Attributes changed.
pub fn attrib(inode: &Inode) {
    let _ = inode;
}
/// Moved.
pub fn moved(
    from: &Inode,
    old: &[u8],
    to: &Inode,
    new: &[u8],
    moved: &Arc<Dentry>,
    over: Option<&Arc<Dentry>>,
) {
    let _ = (from, old, to, new, moved, over);
}
/// Opened.
pub fn opened(file: &File) {
    let _ = file;
}
/// Opened.
pub fn opened_inode(dentry: &Arc<Dentry>) {
    let _ = dentry;
}
/// Contents changed.
pub fn modified(file: &File) {
    let _ = file;
}
/// Closed.
pub fn file_closed(file: &File) {
    let _ = file;
}
/// Contents changed, seen from a name.
pub fn modified_inode(dentry: &Arc<Dentry>) {
    let _ = dentry;
}
