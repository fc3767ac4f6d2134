//! Base64: xarray uses it for fill values of floats, zarr-python for fill values of texts.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes a float64 that [`base64`] encoded; `None` for other texts.
pub(super) fn from_base64(text: &str) -> Option<f64> {
    let digits = text.strip_suffix('=').filter(|digits| digits.len() == 11)?;
    let mut sixes = digits.bytes().map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let bits = sixes.try_fold(0u128, |bits, six| Some(bits << 6 | six? as u128))?;
    Some(f64::from_le_bytes(((bits >> 2) as u64).to_be_bytes()))
}

/// Encodes bytes in base64.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0u32, |n, (i, &b)| n | u32::from(b) << (16 - 8 * i));
        for digit in 0..4 {
            let six = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= group.len() { char::from(DIGITS[six]) } else { '=' });
        }
    }
    out
}
