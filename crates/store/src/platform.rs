//! What differs between operating systems, each with a portable fallback.

use std::io;

use cap_std::fs::{Dir, OpenOptions};

/// Options to open a file for reading that return at once whatever has its name: a FIFO without a writer would
/// otherwise hang the reader for good.
pub(crate) fn read_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Options to create a file that must not exist, with the mode OpenCode's files have.
pub(crate) fn create_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        options.mode(0o664);
    }
    options
}

/// Options to open a file of annals' own in a home: made if it is missing, for its owner's eyes only.
pub(crate) fn own_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Makes a directory of annals' own in a home, for its owner's eyes only.
pub(crate) fn create_own_dir(dir: &Dir, path: &str) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut builder = cap_std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use cap_std::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    dir.create_dir_with(path, &builder)
}

/// Gives `file` the permissions that the file at `path` has, if there is one.
pub(crate) fn keep_permissions(dir: &Dir, path: &str, file: &cap_std::fs::File) -> io::Result<()> {
    match dir.symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => file.set_permissions(metadata.permissions()),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a listing says about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    /// A link, or something the file system does not tell.
    Unclear,
}

/// A directory that is open: its entries can be listed, and its files opened by their names alone.
///
/// A home has a directory for each message, so listing and opening are most of all system calls. On Linux a listing takes four
/// where the portable way takes seven, and no allocation for an entry.
#[derive(Debug)]
pub(crate) struct Folder {
    #[cfg(target_os = "linux")]
    file: cap_std::fs::File,
    #[cfg(not(target_os = "linux"))]
    dir: Dir,
}

impl Folder {
    /// Opens a directory beneath another one.
    pub(crate) fn open(dir: &Dir, path: &str) -> io::Result<Folder> {
        #[cfg(target_os = "linux")]
        return open_directory(dir, path).map(|file| Folder { file });
        #[cfg(not(target_os = "linux"))]
        return dir.open_dir(path).map(|dir| Folder { dir });
    }

    /// Calls `visit` with the entries whose names are UTF-8, hidden ones left out.
    #[cfg(target_os = "linux")]
    pub(crate) fn list(&self, mut visit: impl FnMut(&str, EntryKind)) -> io::Result<()> {
        use rustix::fs::{FileType, RawDir};
        let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 8192];
        let mut listing = RawDir::new(&self.file, &mut buffer);
        while let Some(entry) = listing.next() {
            let entry = entry?;
            let kind = match entry.file_type() {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Directory,
                _ => EntryKind::Unclear,
            };
            if let Some(name) = entry.file_name().to_str().ok().filter(|name| !name.starts_with('.')) {
                visit(name, kind);
            }
        }
        Ok(())
    }

    /// Calls `visit` with the entries whose names are UTF-8, hidden ones left out.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn list(&self, mut visit: impl FnMut(&str, EntryKind)) -> io::Result<()> {
        for entry in self.dir.entries()? {
            let entry = entry?;
            let file_type = entry.file_type()?;
            let kind = match (file_type.is_file(), file_type.is_dir()) {
                (true, _) => EntryKind::File,
                (_, true) => EntryKind::Directory,
                _ => EntryKind::Unclear,
            };
            if let Some(name) = entry.file_name().to_str().filter(|name| !name.starts_with('.')) {
                visit(name, kind);
            }
        }
        Ok(())
    }

    /// Opens a file for reading by the name that a listing gave. A link that leads out of the directory is not followed.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<cap_std::fs::File> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, openat};
            let flags =
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
            // A name without a slash cannot lead out of the directory.
            debug_assert!(!name.contains('/'));
            let opened = again(|| Ok(openat(&self.file, name, flags, Mode::empty())?))?;
            Ok(cap_std::fs::File::from_std(opened.into()))
        }
        #[cfg(not(target_os = "linux"))]
        return self.dir.open_with(name, &read_options());
    }
}

/// Evidence of whether a file was written to: when it was last changed in any way, how long it is, and which file it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp {
    /// Nanoseconds since 1970. On Unix the later of the times of the content and of the entry itself, which nobody can
    /// set back.
    changed: i64,
    length: u64,
    file: u64,
    /// When the content was written, in nanoseconds since 1970. A copy may keep it.
    written: i64,
}

impl Stamp {
    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.changed.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.file.to_le_bytes());
        bytes
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// When the content was written, in milliseconds.
    pub(crate) fn written(&self) -> i64 {
        self.written / 1_000_000
    }

    /// Whether it was changed at an instant, in milliseconds, or later.
    pub(crate) fn is_since(&self, instant: i64) -> bool {
        self.changed / 1_000_000 >= instant
    }

    #[cfg(unix)]
    pub(crate) fn of(metadata: &cap_std::fs::Metadata) -> Stamp {
        use cap_std::fs::MetadataExt;
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let modified = nanoseconds(metadata.mtime(), metadata.mtime_nsec());
        let changed = nanoseconds(metadata.ctime(), metadata.ctime_nsec());
        Stamp {
            changed: modified.max(changed),
            length: metadata.len(),
            file: metadata.ino(),
            written: modified,
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(metadata: &cap_std::fs::Metadata) -> Stamp {
        let modified = metadata.modified().ok().map(cap_std::time::SystemTime::into_std);
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let changed = since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX));
        Stamp { changed, length: metadata.len(), file: 0, written: changed }
    }

    /// That of a file outside any home.
    pub(crate) fn at(path: &std::path::Path) -> Stamp {
        let metadata = std::fs::metadata(path).ok().map(cap_std::fs::Metadata::from_just_metadata);
        metadata.as_ref().map(Stamp::of).unwrap_or_default()
    }
}

/// Calls `visit` with the entries of a directory as [`Folder::list`] does, and with the stamp of each: one system call for an
/// entry.
#[cfg(target_os = "linux")]
pub(crate) fn list_stamps(dir: &Dir, path: &str, mut visit: impl FnMut(&str, Stamp)) -> io::Result<()> {
    use rustix::fs::{AtFlags, RawDir, StatxFlags, statx};
    let opened = open_directory(dir, path)?;
    let mut names = Vec::new();
    let mut buffer = [const { std::mem::MaybeUninit::uninit() }; 16384];
    let mut listing = RawDir::new(&opened, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if !entry.file_name().to_bytes().starts_with(b".") {
            names.push(entry.file_name().to_owned());
        }
    }
    let wanted = StatxFlags::MTIME | StatxFlags::CTIME | StatxFlags::SIZE | StatxFlags::INO;
    for name in names {
        let Ok(text) = name.to_str() else { continue };
        // A name from the listing has no slash, so it cannot lead out of the directory.
        let Ok(found) = statx(&opened, &name, AtFlags::SYMLINK_NOFOLLOW, wanted) else { continue };
        let nanoseconds = |time: rustix::fs::StatxTimestamp| {
            time.tv_sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.tv_nsec))
        };
        let written = nanoseconds(found.stx_mtime);
        let changed = written.max(nanoseconds(found.stx_ctime));
        visit(text, Stamp { changed, length: found.stx_size, file: found.stx_ino, written });
    }
    Ok(())
}

/// Calls `visit` with the entries of a directory as [`Folder::list`] does, and with the stamp of each.
#[cfg(not(target_os = "linux"))]
pub(crate) fn list_stamps(dir: &Dir, path: &str, mut visit: impl FnMut(&str, Stamp)) -> io::Result<()> {
    let mut names = Vec::new();
    Folder::open(dir, path)?.list(|name, _| names.push(name.to_owned()))?;
    for name in names {
        if let Ok(metadata) = dir.symlink_metadata(format!("{path}/{name}")) {
            visit(&name, Stamp::of(&metadata));
        }
    }
    Ok(())
}

/// Makes the entries of a directory durable. Elsewhere than on Unix a directory cannot be synced; there the file
/// system's own journal has to do.
pub(crate) fn sync_dir(dir: &Dir, path: &str) -> io::Result<()> {
    #[cfg(unix)]
    {
        open_directory(dir, path)?.sync_all()
    }
    #[cfg(not(unix))]
    {
        let _ = (dir, path);
        Ok(())
    }
}

/// Makes the entries of a directory outside any home durable.
pub(crate) fn sync_directory(path: &std::path::Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        std::fs::File::open(path)?.sync_all()
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(())
    }
}

/// Makes a directory that only its owner can look into, and its parents.
pub(crate) fn create_private_directory(path: &std::path::Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Makes an empty file that only its owner can read. It must not exist.
pub(crate) fn create_private_file(path: &std::path::Path) -> io::Result<()> {
    private_options().create_new(true).open(path).map(drop)
}

/// Opens a file that only its owner can read, and makes it if it is missing. Anything else at the path, a link included, is an
/// error.
pub(crate) fn open_private_file(path: &std::path::Path) -> io::Result<std::fs::File> {
    open_regular(private_options().create(true).truncate(false), path)
}

/// Whether an open file is still the one at a path.
#[cfg(unix)]
pub(crate) fn is_at(file: &std::fs::File, path: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(crate) fn is_at(_: &std::fs::File, path: &std::path::Path) -> bool {
    path.exists()
}

/// Opens a file of ours to read and write it, as [`open_private_file`] does.
pub(crate) fn open_own_file(path: &std::path::Path) -> io::Result<std::fs::File> {
    open_regular(private_options().read(true).create(true).truncate(false), path)
}

/// Opens a file to read it. Anything else at the path, a link included, is an error.
pub(crate) fn open_to_read(path: &std::path::Path) -> io::Result<std::fs::File> {
    open_regular(std::fs::OpenOptions::new().read(true), path)
}

/// The bytes of a file. Anything else at the path, a pipe for instance, is an error and is not waited for.
pub(crate) fn read_file(path: &std::path::Path) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::new();
    open_regular(std::fs::OpenOptions::new().read(true), path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file. Opening anything else, such as a FIFO whose other end is not open, fails at once.
fn open_regular(options: &mut std::fs::OpenOptions, path: &std::path::Path) -> io::Result<std::fs::File> {
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    match again(|| options.open(path)) {
        Ok(file) => {
            let kind = file.metadata()?.file_type();
            if kind.is_file() { Ok(file) } else { Err(not_a_file(path, kind)) }
        }
        Err(error) => match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_file() => Err(not_a_file(path, metadata.file_type())),
            _ => Err(error),
        },
    }
}

/// Refuses a path at which something other than a file exists. A link to a file is accepted, and so is a path at which
/// nothing exists.
pub(crate) fn expect_file(path: &std::path::Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(not_a_file(path, metadata.file_type())),
        _ => Ok(()),
    }
}

fn not_a_file(path: &std::path::Path, kind: std::fs::FileType) -> io::Error {
    let what = match (kind.is_dir(), kind.is_symlink()) {
        (true, _) => "a directory",
        (_, true) => "a link",
        _ => "a pipe, socket or device",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} is {what}, not a file", path.display()))
}

/// Does something again as long as a signal interrupts it.
pub(crate) fn again<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether the disk of a directory has no room left, as far as writing a few pages tells.
pub(crate) fn is_full(directory: &std::path::Path) -> bool {
    let probe = tempfile::tempfile_in(directory).and_then(|mut file| {
        io::Write::write_all(&mut file, &[0; 65_536])?;
        file.sync_all()
    });
    probe.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

/// Options to create a file that only its owner can read.
pub(crate) fn private_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
        // A pipe of that name is refused, and not waited for.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options
}

/// Whether this process may write to a path, as far as can be told without opening it.
pub(crate) fn may_write(path: &std::path::Path) -> bool {
    #[cfg(unix)]
    {
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    }
    #[cfg(not(unix))]
    {
        std::fs::metadata(path).is_ok_and(|metadata| !metadata.permissions().readonly())
    }
}

/// The kind of network file system that a path, or the nearest thing above it that exists, is on. Locks do not work there
/// as SQLite needs them.
#[cfg(target_os = "linux")]
pub(crate) fn network_file_system(path: &std::path::Path) -> Option<&'static str> {
    let nearest = path.ancestors().find(|path| path.exists())?;
    network_kind(rustix::fs::statfs(nearest).ok()?.f_type as i64)
}

/// The kind of network file system that a path is on.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_file_system(_: &std::path::Path) -> Option<&'static str> {
    None
}

/// The name of a network file system by the number that `statfs` gives.
#[cfg(target_os = "linux")]
fn network_kind(kind: i64) -> Option<&'static str> {
    // Numbers of 32 bits come back with their sign extended on some architectures.
    Some(match kind & 0xffff_ffff {
        0x6969 => "NFS",
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "SMB",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        _ => return None,
    })
}

/// Opens a directory itself. cap-std's own way gives a handle that can only be used to open what is below.
#[cfg(unix)]
fn open_directory(dir: &Dir, path: &str) -> io::Result<cap_std::fs::File> {
    use cap_std::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::DIRECTORY.bits().cast_signed());
    again(|| dir.open_with(path, &options))
}

/// Whether an error says that a file system or file cannot be written to at all.
pub(crate) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Another process that has `file` open for writing although no process holds a lock on byte `at` of it, as far as the
/// system tells. Elsewhere than on Linux it does not.
#[cfg(target_os = "linux")]
pub(crate) fn writer_without_lock(file: &std::path::Path, at: u64) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let wanted = std::fs::metadata(file).ok()?;
    let inode = wanted.ino().to_string();
    // `1: POSIX  ADVISORY  READ 1234 fe:00:5678 128 128`: the device and inode, then the range.
    let holds = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [.., device_and_inode, start, end] = fields[..] else { return false };
        let end = end.parse().unwrap_or(u64::MAX);
        device_and_inode.rsplit(':').next() == Some(&inode)
            && start.parse::<u64>().is_ok_and(|start| (start..=end).contains(&at))
    };
    let is_held = || std::fs::read_to_string("/proc/locks").is_ok_and(|locks| locks.lines().any(holds));
    if is_held() {
        return None;
    }
    let writes = |pid: u32, descriptor: &str| {
        let flags = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"))?;
        Some(u32::from_str_radix(flags.trim(), 8).ok()? & 0b11 != 0)
    };
    let has_open =
        |pid: &u32| descriptors_of(*pid, &wanted).iter().any(|name| writes(*pid, name) == Some(true));
    let mut others = other_processes();
    let suspect = others.find(has_open)?;
    // The list of locks is read in pieces while others come and go: one that was missed is seen the next time, and a lock that
    // was lost stays lost.
    for _ in 0..LOOKS {
        std::thread::sleep(std::time::Duration::from_millis(5));
        if is_held() {
            return None;
        }
    }
    Some(suspect).filter(has_open)
}

/// The other processes of this machine, as far as the system shows them.
#[cfg(target_os = "linux")]
fn other_processes() -> impl Iterator<Item = u32> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
}

/// The descriptors with which a process has a file open.
#[cfg(target_os = "linux")]
fn descriptors_of(pid: u32, wanted: &std::fs::Metadata) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let is_wanted = |entry: &std::fs::DirEntry| {
        std::fs::metadata(entry.path())
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == (wanted.dev(), wanted.ino()))
    };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter(is_wanted).filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Other processes that have a file open, as far as the system tells. Elsewhere than on Linux it does not.
#[cfg(target_os = "linux")]
pub(crate) fn users_of(file: &std::path::Path) -> Vec<u32> {
    let Ok(wanted) = std::fs::metadata(file) else { return Vec::new() };
    other_processes().filter(|pid| !descriptors_of(*pid, &wanted).is_empty()).collect()
}

/// Other processes that have a file open.
#[cfg(not(target_os = "linux"))]
pub(crate) fn users_of(_: &std::path::Path) -> Vec<u32> {
    Vec::new()
}

/// How often a lock that does not seem to be held is looked for again.
#[cfg(target_os = "linux")]
const LOOKS: usize = 4;

/// Another process that has `file` open for writing although no process holds a lock on byte `at` of it.
#[cfg(not(target_os = "linux"))]
pub(crate) fn writer_without_lock(_: &std::path::Path, _: u64) -> Option<u32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_machines_are_told_from_local_ones() {
        // ext4, btrfs, xfs, tmpfs, overlayfs.
        for local in [0xef53, 0x9123_683e, 0x5846_5342, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network_kind(local), None);
        }
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(i64::from(0xff53_4d42_u32.cast_signed())), Some("SMB"));
        assert_eq!(network_file_system(std::path::Path::new("/nowhere/at/all")), None);
    }
}
