//! What users write, what is recorded, and what they are told when it is wrong.

use drystone_transform::{Chain, ConfigValue, ListItem};

#[test]
fn the_recorded_text_makes_the_same_chain() {
    for (given, recorded) in [
        ("", "identity"),
        ("  ", "identity"),
        ("none", "identity"),
        ("identity", "identity"),
        ("zstd", "zstd:3"),
        ("zstd:0", "zstd:3"),
        ("ZSTD:3", "zstd:3"),
        ("zstd:level=-7", "zstd:-7"),
        ("zstd : 22", "zstd:22"),
        ("shuffle,zstd:1", "shuffle,zstd:1"),
        (" shuffle:8 , identity, zstd:1 ", "shuffle:8,zstd:1"),
    ] {
        let chain = Chain::parse(given).unwrap();
        assert_eq!(chain.canonical(), recorded, "{given:?}");
        assert_eq!(Chain::parse(recorded).unwrap().canonical(), recorded);
        assert_eq!(chain.is_identity(), recorded == "identity");
    }
}

#[test]
fn every_level_from_minus_7_to_22_is_taken_and_no_other() {
    for level in -7..=22 {
        assert!(Chain::parse(&format!("zstd:{level}")).is_ok(), "{level}");
    }
    for level in [-8, 23, 1000, i64::MAX, i64::MIN] {
        let message = Chain::parse(&format!("zstd:{level}")).unwrap_err().to_string();
        assert_eq!(message, format!("codec zstd: level {level} is out of range, allowed are -7 to 22"));
    }
}

#[test]
fn messages_say_what_is_wrong_and_what_would_be_right() {
    for (text, message) in [
        ("zsdt:3", "unknown codec \"zsdt\" (did you mean \"zstd\"?); known are identity, shuffle, zstd"),
        (
            "shufle,zstd",
            "unknown codec \"shufle\" (did you mean \"shuffle\"?); known are identity, shuffle, zstd",
        ),
        ("qwerty", "unknown codec \"qwerty\"; known are identity, shuffle, zstd"),
        ("zstd:fast", "codec zstd: expected a level as in zstd:3, found \"fast\""),
        ("zstd:3.5", "codec zstd: expected a level as in zstd:3, found 3.5"),
        ("zstd:3,4", "codec zstd: the level is given twice, the second time as 4"),
        ("shuffle:0", "codec shuffle: expected one element size, 1 to 65535, as in shuffle:8, found 0"),
        ("none:1", "codec none: takes no parameters, found 1"),
        (
            "zstd,3",
            "transform \"zstd,3\", at byte 5: expected a codec name, found \"3\"; for a parameter write zstd:3",
        ),
        ("zstd,", "transform \"zstd,\", at byte 5: expected a codec name or a parameter, found nothing"),
    ] {
        assert_eq!(Chain::parse(text).unwrap_err().to_string(), message);
    }
    let many = ["zstd"; 9].join(",");
    assert!(Chain::parse(&many).unwrap_err().to_string().contains("at most 8"));
}

fn object(name: &str, configuration: &[(&str, ConfigValue)]) -> ListItem {
    let configuration = configuration.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
    ListItem::Object { name: name.into(), configuration }
}

#[test]
fn a_zarr_codec_list_means_what_it_means_in_zarr() {
    use ConfigValue::{Bool, Int, Text};
    let chain = Chain::parse_list(&[
        object("bytes", &[("endian", Text("little".into()))]),
        object("numcodecs.shuffle", &[("elementsize", Int(4))]),
        object("zstd", &[("level", Int(5)), ("checksum", Bool(false))]),
        object("crc32c", &[]),
    ]);
    assert_eq!(chain.unwrap().canonical(), "shuffle:4,zstd:5");
    let mixed = Chain::parse_list(&[ListItem::Text("shuffle".into()), object("zstd", &[])]);
    assert_eq!(mixed.unwrap().canonical(), "shuffle,zstd:3");
    assert!(Chain::parse_list(&[]).unwrap().is_identity());
}

#[test]
fn a_zarr_codec_that_would_mean_something_else_is_refused() {
    use ConfigValue::{Bool, Int, Nested, Text};
    for (item, part) in [
        (object("bytes", &[("endian", Text("big".into()))]), "stored little-endian"),
        (object("zstd", &[("checksum", Bool(true))]), "checksum is not kept"),
        (object("zstd", &[("level", Int(99))]), "out of range"),
        (object("zstd", &[("level", Nested)]), "not a value that it takes"),
        (object("zstd", &[("speed", Int(1))]), "found speed=1"),
        (object("zstandard", &[]), "unknown codec"),
        (object("shufffle", &[]), "did you mean \"shuffle\""),
    ] {
        let message = Chain::parse_list(std::slice::from_ref(&item)).unwrap_err().to_string();
        assert!(message.contains(part), "{item:?}: {message}");
    }
}
