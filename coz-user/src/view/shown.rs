//! What is shown at the moment, and how it comes to be.

use super::follow::Source;
use crate::report::{
    self,
    html::{self, Served},
};
use anyhow::Result;
use hyper::body::Bytes;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The page and its data at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown {
    /// How many moments there were before.
    pub number: u64,
    /// The page's data.
    pub data: Bytes,
}

impl Shown {
    /// The whole page.
    pub(super) fn page(&self) -> Bytes {
        // What we have made ourselves is UTF-8.
        html::text(std::str::from_utf8(&self.data).unwrap_or("{}"), Served::Yes).into()
    }
}

/// Replicates of the bootstrap while the profile grows: enough for a band, and done in a fifth of the time.
const REPLICATES: u32 = 199;

/// The file, and what was made of it last.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    source: Arc<Mutex<Source>>,
    options: report::Options,
}

impl Maker {
    pub(super) fn new(source: Source, options: report::Options) -> Self {
        Self { source: Arc::new(Mutex::new(source)), options }
    }

    /// Looks at the file; what follows from it if it has grown, and how long that took. `number` goes into it.
    ///
    /// # Errors
    /// The file can not be read.
    pub(super) fn look(&self, number: u64) -> Result<Option<(Shown, Duration)>> {
        // Whoever panicked in here has left a source that can be read on from.
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if !source.update()? && number > 0 {
            return Ok(None);
        }
        let began = Instant::now();
        let profile = source.profile();
        let mut options = self.options.clone();
        if profile.open_end {
            options.replicates = options.replicates.min(REPLICATES);
        }
        let estimate = report::estimate_profile(&profile, &options);
        let page = html::Page {
            profile: &profile,
            estimate: &estimate,
            file: &source.name(),
            sources: options.sources,
            served: Served::Yes,
            number,
        };
        let data = page.json().into();
        Ok(Some((Shown { number, data }, began.elapsed())))
    }
}
