//! The least that the upper end of an interval can be before all runs are known.

use super::{MeanKind, mean, prediction_interval, student_quantile};

/// The least upper end that [`prediction_interval`] can have of `count` samples, none of them
/// negative, once these are known. It is least where those to come are all the same and lower.
///
/// Worked example: two of ten runs show 100 and 120. Eight more of 95.1 give the least upper end,
/// 116.7: lower ones enlarge the deviation by more than they lower the mean.
pub fn least_upper_end(known: &[f64], count: usize) -> f64 {
    let Some(center) = mean(MeanKind::Arithmetic, known).filter(|_| count > known.len()) else {
        return prediction_interval(known).map_or(0.0, |interval| interval.high);
    };
    let (all, freedom) = (count as f64, (count - 1) as f64);
    let squares: f64 = known.iter().map(|one| (one - center).powi(2)).sum();
    // Those to come lie `below` the known ones: the mean falls by `share` of it, and the sum of
    // squares grows by `weight` of its square.
    let share = (count - known.len()) as f64 / all;
    let weight = share * known.len() as f64;
    let reach = student_quantile(count) * (1.0 + 1.0 / all).sqrt();
    let slope = reach * reach * weight - share * share * freedom;
    let least = share * (freedom * squares / (weight * slope)).sqrt();
    let below = if slope > 0.0 {
        least.min(center)
    } else {
        center
    };
    center - share * below + reach * ((squares + weight * below * below) / freedom).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn no_samples_to_come_lower_the_upper_end_below_the_least() {
        for (known, count) in [
            (&[100.0, 120.0][..], 10),
            (&[100.0, 100.0], 10),
            (&[3.0, 90.0], 4),
            (&[5.0], 30),
            (&[70.0, 72.0, 74.0], 40),
        ] {
            let least = least_upper_end(known, count);
            let with = |to_come: &mut dyn FnMut(usize) -> f64| {
                let mut samples = known.to_vec();
                samples.extend((known.len()..count).map(to_come));
                prediction_interval(&samples).unwrap().high
            };
            let alike = (0..=4_000).map(|step| with(&mut |_| f64::from(step) / 20.0));
            let lowest = alike.fold(f64::INFINITY, f64::min);
            assert!(
                (least..least * 1.001).contains(&(lowest * 1.000_001)),
                "{known:?}: {lowest}"
            );
            let mut stream = Pcg64Mcg::seed_from_u64(5);
            let mut up_to = |most: f64| most * f64::from(stream.next_u32()) / 4_294_967_296.0;
            for _ in 0..1_000 {
                let (around, width) = (up_to(200.0), up_to(60.0));
                let drawn = with(&mut |_| around + up_to(width));
                assert!(
                    drawn > least * 0.999_999,
                    "{known:?}: {drawn} below {least}"
                );
            }
        }
        assert_eq!(least_upper_end(&[100.0, 100.0], 10), 100.0);
        let all = [70.0, 72.0, 74.0];
        assert_eq!(
            least_upper_end(&all, 3),
            prediction_interval(&all).unwrap().high
        );
    }
}
