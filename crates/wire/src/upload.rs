//! Headers of requests that belong to an upload in pieces.

use crate::Malformed;

/// The header that names an upload.
pub const UPLOAD: &str = "drystone-upload";
/// The header with the offset of a piece.
pub const OFFSET: &str = "drystone-offset";
/// The header with the object's length, which ends an upload.
pub const LENGTH: &str = "drystone-length";

/// Length of an upload's name in characters.
const NAME_LEN: usize = 32;

/// The step that such a request makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadStep {
    /// Adds the request's body as the next piece.
    Piece {
        /// Offset of its first byte in the object.
        offset: u64,
    },
    /// Completes the object.
    End {
        /// Length of the object in bytes.
        length: u64,
    },
    /// Removes the pieces received so far.
    Abandon,
}

impl UploadStep {
    /// The step that the values of the three headers describe. A number has one spelling; offset and length
    /// exclude each other.
    pub fn parse(name: &str, offset: Option<&str>, length: Option<&str>) -> Result<UploadStep, Malformed> {
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if name.len() != NAME_LEN || !name.bytes().all(is_digit) {
            return Err(Malformed::new("the name of an upload is not 32 hexadecimal digits", 0));
        }
        match (offset, length) {
            (Some(offset), None) => Ok(UploadStep::Piece { offset: number(offset)? }),
            (None, Some(length)) => Ok(UploadStep::End { length: number(length)? }),
            (None, None) => Ok(UploadStep::Abandon),
            (Some(_), Some(_)) => Err(Malformed::new("a step of an upload has an offset and a length", 0)),
        }
    }
}

fn number(text: &str) -> Result<u64, Malformed> {
    let has_one_spelling = text == "0" || !text.starts_with('0');
    let is_number = !text.is_empty() && has_one_spelling && text.bytes().all(|c| c.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| Malformed::new("a header of an upload is not a number of bytes", 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn a_step_is_a_piece_an_end_or_neither() {
        let parse = |offset, length| UploadStep::parse(NAME, offset, length);
        assert_eq!(parse(Some("0"), None), Ok(UploadStep::Piece { offset: 0 }));
        assert_eq!(parse(None, Some("18446744073709551615")), Ok(UploadStep::End { length: u64::MAX }));
        assert_eq!(parse(None, None), Ok(UploadStep::Abandon));
        assert!(parse(Some("0"), Some("0")).is_err());
        for number in ["", "-1", "+1", "01", "1 ", "0x1", "18446744073709551616"] {
            assert!(parse(Some(number), None).is_err(), "{number:?}");
        }
        for name in
            ["", "..", &NAME[1..], "00112233445566778899AABBCCDDEEFF", "00112233445566778899aabbccddee/f"]
        {
            assert!(UploadStep::parse(name, None, None).is_err(), "{name:?}");
        }
    }
}
