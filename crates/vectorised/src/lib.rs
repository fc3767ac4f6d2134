//! Loops that are compiled for several processors; the version is chosen at each call.

/// Defines a function whose loops are also compiled for AVX2 and for AVX-512.
///
/// All versions give the same bits: the compiler neither fuses nor reorders operations on floats. What the body calls
/// is vectorised with it if it is `#[inline(always)]`.
///
/// ```
/// drystone_vectorised::vectorised! {
///     /// Adds to each value.
///     pub fn raise(values: &mut [f64], by: f64) {
///         values.iter_mut().for_each(|value| *value += by);
///     }
/// }
/// let mut values = [1.0, 2.0];
/// raise(&mut values, 0.5);
/// assert_eq!(values, [1.5, 2.5]);
/// ```
#[macro_export]
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident $(<$($t:ident: $bound:path),+>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name $(<$($t: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn plain $(<$($t: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn wide $(<$($t: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    plain $(::<$($t),+>)? ($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn widest $(<$($t: $bound),+>)? ($($arg: $ty),*) $(-> $ret)? {
                    plain $(::<$($t),+>)? ($($arg),*)
                }
                if is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: the instructions were detected; those of AVX-512 F come with the others.
                    return unsafe { widest $(::<$($t),+>)? ($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the instructions were detected.
                    return unsafe { wide $(::<$($t),+>)? ($($arg),*) };
                }
            }
            plain $(::<$($t),+>)? ($($arg),*)
        }
    };
}
