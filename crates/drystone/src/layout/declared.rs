//! Turns the declared `access` of a variable into the mix of reads that the cost model weighs.

use drystone_dataset::{Access, Read};
use drystone_plan::layout::{Pattern, standard_mix};

/// The declared reads of an array of this shape, with the step axis first if there is one. The weights sum to 1.
///
/// The axes in a declaration are the first ones after the step axis. Reads take all of any further axes, which are
/// those of an array element type. The weight left for the standard mix is divided equally among its reads.
pub(crate) fn declared_mix(access: &Access, shape: &[u64], steps: bool) -> Vec<Pattern> {
    let first = usize::from(steps);
    let mut mix = Vec::new();
    for expected in &access.reads {
        let mut count: Vec<u64> = shape.iter().map(|n| (*n).max(1)).collect();
        if steps && let Some(step) = count.first_mut() {
            *step = 1;
        }
        let cells = count.get_mut(first..).unwrap_or_default();
        match &expected.read {
            Read::Plane(axis) => cells.iter_mut().skip(*axis).take(1).for_each(|n| *n = 1),
            Read::Line(axis) => {
                cells.iter_mut().enumerate().filter(|(d, _)| d != axis).for_each(|(_, n)| *n = 1)
            }
            Read::Box(sides) => cells.iter_mut().zip(sides).for_each(|(n, side)| *n = (*side).clamp(1, *n)),
            Read::Cell | Read::Series => cells.fill(1),
            Read::Step | Read::All => {}
            Read::Standard => {
                let standard = standard_mix(shape, steps);
                let weight = expected.share / standard.len() as f64;
                mix.extend(standard.into_iter().map(|p| Pattern { weight, ..p }));
                continue;
            }
        }
        if matches!(expected.read, Read::Series | Read::All)
            && let (Some(all), Some(&n)) = (count.first_mut().filter(|_| steps), shape.first())
        {
            *all = n.max(1);
        }
        mix.push(Pattern { name: expected.text.clone(), weight: expected.share, count });
    }
    mix
}

#[cfg(test)]
mod tests {
    use drystone_dataset::Axes;

    use super::*;
    use drystone_plan::layout::{Array, Bounds, Device, choose};

    fn access(text: &str, steps: bool) -> Access {
        Access::parse(text, &Axes { count: 3, names: &["z", "y", "x"], steps }).unwrap()
    }

    #[test]
    fn every_kind_of_read_becomes_a_box() {
        let all = access("plane:y, line:x, box:4x5, cell, series, step, all", true);
        let mix = declared_mix(&all, &[9, 20, 30, 40], true);
        let counts: Vec<&[u64]> = mix.iter().map(|p| p.count.as_slice()).collect();
        let expected: [&[u64]; 7] = [
            &[1, 20, 1, 40],
            &[1, 1, 1, 40],
            &[1, 4, 5, 40],
            &[1, 1, 1, 1],
            &[9, 1, 1, 1],
            &[1, 20, 30, 40],
            &[9, 20, 30, 40],
        ];
        assert_eq!(counts, expected);
        let without = declared_mix(&access("plane:z, line:z, all", false), &[20, 30, 40], false);
        let counts: Vec<&[u64]> = without.iter().map(|p| p.count.as_slice()).collect();
        assert_eq!(counts, [&[1, 30, 40][..], &[20, 1, 1], &[20, 30, 40]]);
    }

    #[test]
    fn undeclared_weight_goes_to_the_standard_mix() {
        let mix = declared_mix(&access("plane:z 90%", true), &[9, 20, 30, 40], true);
        let names = |mix: &[Pattern]| mix.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&mix[1..]), names(&standard_mix(&[9, 20, 30, 40], true)));
        assert!((mix.iter().map(|p| p.weight).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((mix[0].weight - 0.9).abs() < 1e-9);
    }

    #[test]
    fn chunks_follow_the_declared_reads() {
        let shape = [512, 512, 512];
        let array = Array { shape: &shape, item: 4, steps: false };
        let cut = |text: &str| {
            let mix = declared_mix(&access(text, false), &shape, false);
            choose(array, &mix, &Device::ASSUMED, &Bounds::PORTABLE).chunk
        };
        let planes = cut("plane:z");
        assert_eq!(planes[0], 1, "{planes:?}");
        let lines = cut("line:z");
        assert_eq!(lines[0], 512, "{lines:?}");
        let mixed = cut("plane:z 50%, plane:x 50%");
        assert!(mixed[0] > 1 && mixed[2] > 1 && mixed[1] == 512, "{mixed:?}");
    }

    #[test]
    fn an_array_without_cells_has_a_mix_too() {
        for shape in [&[0, 0, 0, 0][..], &[1], &[]] {
            let steps = !shape.is_empty();
            let mix = declared_mix(&access("plane:z, line:y, box:7, standard", steps), shape, steps);
            assert!(mix.iter().all(|p| p.count.len() == shape.len() && p.count.iter().all(|n| *n > 0)));
        }
    }
}
