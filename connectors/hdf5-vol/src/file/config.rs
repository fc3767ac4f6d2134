//! The configuration string: the text after the connector's name in `HDF5_VOL_CONNECTOR`.

use crate::file::memory;

/// Whether to claim to be native, for programs that call functions which the library reserves for its own
/// files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum Mimic {
    #[default]
    Auto,
    On,
    Off,
}

/// The settings of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Claim to be native.
    pub mimic: Mimic,
    /// Most bytes that are buffered in memory.
    pub buffer: u64,
    /// Whether flush and close sync.
    pub sync: bool,
    /// Whether closing replaces the stub by a genuine HDF5 file.
    pub publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { mimic: Mimic::Auto, buffer: share_of_memory(), sync: true, publish: false }
    }
}

/// A share of the memory that this process may have.
fn share_of_memory() -> u64 {
    share(memory::available(), std::thread::available_parallelism().map_or(1, |n| n.get() as u64))
}

/// A sixteenth for each processor, as there may be a rank on each: up to 256 MiB, and at least 64 MiB where
/// that is no more than an eighth of the whole; never below 1 MiB.
fn share(all: u64, processors: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    let least = (64 * MIB).min(all / 8).max(MIB);
    // Whole MiB, as it is written into configuration strings.
    (all / 16 / processors).clamp(least, 256 * MIB) / MIB * MIB
}

impl Config {
    /// Parses `key=value;key=value`. The error names the word that was not understood.
    pub fn parse(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        for word in text.split([';', ' ', '\t', '\n']).filter(|w| !w.is_empty()) {
            let (key, value) = word.split_once('=').ok_or_else(|| format!("\"{word}\" is not key=value"))?;
            let flag = || match value {
                "0" | "off" | "false" => Ok(false),
                "1" | "on" | "true" => Ok(true),
                _ => Err(format!("{key}={value}: give 0 or 1")),
            };
            match key {
                "mimic" => {
                    config.mimic = match value {
                        "auto" => Mimic::Auto,
                        "on" => Mimic::On,
                        "off" => Mimic::Off,
                        _ => return Err(format!("mimic={value}: give auto, on or off")),
                    }
                }
                "buffer" => {
                    let mib: u64 = value.parse().map_err(|_| format!("buffer={value}: give MiB"))?;
                    config.buffer = mib.clamp(1, 1 << 20) << 20;
                }
                "sync" => config.sync = flag()?,
                "publish" => config.publish = flag()?,
                _ => {
                    return Err(format!("\"{key}\" is not known; there are mimic, buffer, sync and publish"));
                }
            }
        }
        Ok(config)
    }

    /// As a string that [`Config::parse`] takes.
    pub fn text(&self) -> String {
        let mimic = match self.mimic {
            Mimic::Auto => "auto",
            Mimic::On => "on",
            Mimic::Off => "off",
        };
        format!(
            "mimic={mimic};buffer={};sync={};publish={}",
            self.buffer >> 20,
            u8::from(self.sync),
            u8::from(self.publish)
        )
    }
}

/// A configuration as the library holds it; an error in the string is kept until a file is opened.
pub(crate) type Info = std::result::Result<Config, String>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
    use super::*;

    #[test]
    fn the_string_comes_back() {
        let config = Config::parse("mimic=off;buffer=128;sync=0").unwrap();
        assert_eq!(config, Config { mimic: Mimic::Off, buffer: 128 << 20, sync: false, publish: false });
        assert_eq!(Config::parse(&config.text()).unwrap(), config);
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn the_buffer_is_a_share_of_the_memory_that_there_is() {
        let mib = |all: u64, processors| share(all << 20, processors) >> 20;
        assert_eq!((mib(1 << 20, 2), mib(16 << 10, 8)), (256, 128));
        assert_eq!(mib(16 << 10, 64), 64);
        assert_eq!((mib(256, 2), mib(256, 64), mib(4, 4), mib(0, 1)), (32, 32, 1, 1));
    }

    #[test]
    fn an_unknown_word_is_an_error() {
        assert!(Config::parse("bufer=1").unwrap_err().contains("bufer"));
        assert!(Config::parse("sync=maybe").is_err());
        assert!(Config::parse("drystone").is_err());
    }
}
