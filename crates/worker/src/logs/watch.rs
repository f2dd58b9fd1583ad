//! Which output files grew: the kernel says so, for the whole folder at once.
//!
//! Nothing runs while no job writes. Where the kernel cannot watch (its limit of watches is reached), all
//! files are looked at now and then.

use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// How often files are looked at without the kernel's help.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What may have grown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Grown {
    Names(Vec<String>),
    /// Any of the files.
    Any,
}

/// A watch on one folder.
#[derive(Debug)]
pub(super) struct Watch {
    kernel: Option<AsyncFd<Descriptor>>,
}

#[derive(Debug)]
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Watch {
    pub(super) fn new(directory: &Path) -> Self {
        let kernel = Self::kernel(directory);
        if let Err(error) = &kernel {
            tracing::warn!(error = %error, "cannot watch the output files, looking at them every 100 ms");
        }
        Self { kernel: kernel.ok() }
    }

    fn kernel(directory: &Path) -> std::io::Result<AsyncFd<Descriptor>> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(directory, AddWatchFlags::IN_MODIFY)?;
        #[expect(unsafe_code, reason = "the runtime must be promised that the descriptor stays open")]
        // SAFETY: the descriptor belongs to the value handed over, and nothing closes it before that is dropped.
        let watched = unsafe { AsyncFd::register(Descriptor(inotify)) }?;
        Ok(watched)
    }

    /// Waits until some file may have grown. May be dropped and called again without losing anything.
    pub(super) async fn grown(&mut self) -> Grown {
        let Some(kernel) = &self.kernel else {
            tokio::time::sleep(LOOK_EVERY).await;
            return Grown::Any;
        };
        loop {
            let Ok(mut ready) = kernel.readable().await else {
                self.kernel = None;
                return Grown::Any;
            };
            match ready.get_inner().0.read_events() {
                Ok(events)
                    if events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)) =>
                {
                    return Grown::Any;
                }
                Ok(events) => {
                    let names = events.into_iter().filter_map(|event| event.name?.into_string().ok());
                    return Grown::Names(names.collect());
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(_) => {
                    self.kernel = None;
                    return Grown::Any;
                }
            }
        }
    }
}
