//! The configuration string: what follows the connector's name in `HDF5_VOL_CONNECTOR`.

/// Whether to claim to be native, for programs that call functions the library keeps for its own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum Mimic {
    #[default]
    Auto,
    On,
    Off,
}

/// What a program may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Claim to be native.
    pub mimic: Mimic,
    /// Bytes that may wait in memory.
    pub buffer: u64,
    /// Whether flush and close reach the device.
    pub sync: bool,
    /// Whether closing replaces the stub by a genuine HDF5 file.
    pub publish: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { mimic: Mimic::Auto, buffer: share_of_memory(), sync: true, publish: false }
    }
}

/// A sixteenth of the memory that there is for each processor, as there may be a rank on each; from 64 to 256 MiB.
fn share_of_memory() -> u64 {
    // SAFETY: it takes a number and returns one, -1 if it does not know.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let all = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0));
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    // Whole MiB, as it is written into configuration strings.
    (all / 16 / processors).clamp(64 << 20, 256 << 20) >> 20 << 20
}

impl Config {
    /// Reads `key=value;key=value`. The error says which word was not understood.
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
    fn an_unknown_word_is_an_error() {
        assert!(Config::parse("bufer=1").unwrap_err().contains("bufer"));
        assert!(Config::parse("sync=maybe").is_err());
        assert!(Config::parse("drystone").is_err());
    }
}
