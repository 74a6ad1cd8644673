//! Ten variants have ten colours that every reader tells apart.

/// The style of the page.
const STYLE: &str = include_str!("page/report.css");
/// Matrix that simulates the sight of a reader without the cones for medium wavelengths, in linear
/// light: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
/// Vision Deficiency", 2009, severity 1.0.
const DEUTERANOPIA: [[f64; 3]; 3] = [
    [0.367_322, 0.860_646, -0.227_968],
    [0.280_085, 0.672_501, 0.047_413],
    [-0.011_820, 0.042_940, 0.968_881],
];
/// Least distance of two colours in OKLab. Two steps of a colour scale that people can just tell
/// apart are 0.02 apart.
const LEAST: f64 = 0.12;

fn linear(channel: u8) -> f64 {
    let share = f64::from(channel) / 255.0;
    match share <= 0.040_45 {
        true => share / 12.92,
        false => ((share + 0.055) / 1.055).powf(2.4),
    }
}

/// OKLab of linear sRGB: Ottosson, "A perceptual color space for image processing", 2020.
fn oklab([red, green, blue]: [f64; 3]) -> [f64; 3] {
    let long = 0.412_221_470_8 * red + 0.536_332_536_3 * green + 0.051_445_992_9 * blue;
    let medium = 0.211_903_498_2 * red + 0.680_699_545_1 * green + 0.107_396_956_6 * blue;
    let short = 0.088_302_461_9 * red + 0.281_718_837_6 * green + 0.629_978_700_5 * blue;
    let [long, medium, short] = [long, medium, short].map(|one| one.max(0.0).cbrt());
    [
        0.210_454_255_3 * long + 0.793_617_785_0 * medium - 0.004_072_046_8 * short,
        1.977_998_495_1 * long - 2.428_592_205_0 * medium + 0.450_593_709_9 * short,
        0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766_0 * short,
    ]
}

fn seen_without_green(rgb: [f64; 3]) -> [f64; 3] {
    let row = |row: [f64; 3]| {
        let sum: f64 = row
            .iter()
            .zip(rgb)
            .map(|(share, value)| share * value)
            .sum();
        sum.clamp(0.0, 1.0)
    };
    DEUTERANOPIA.map(row)
}

/// `--variant-0` to `--variant-9` of each theme, light first.
fn palettes() -> Vec<Vec<[f64; 3]>> {
    let colour = |text: &str| {
        let hex: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
        let wide: String = match hex.len() {
            3 => hex.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => hex,
        };
        [0, 2, 4].map(|at| linear(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()))
    };
    let row = |row: usize| {
        let name = format!("--variant-{row}:");
        let found = STYLE.match_indices(&name);
        let texts = found.map(|(at, _)| STYLE[at + name.len()..].trim_start());
        let colours = texts.filter_map(|text| text.strip_prefix('#').map(colour));
        colours.collect::<Vec<_>>()
    };
    let rows: Vec<_> = (0..10).map(row).collect();
    let theme = |theme: usize| rows.iter().map(|colours| colours[theme]).collect();
    (0..2).map(theme).collect()
}

#[test]
fn ten_colours_are_told_apart_also_without_the_cones_for_green() {
    for palette in palettes() {
        assert_eq!(palette.len(), 10);
        for (row, one) in palette.iter().enumerate() {
            for (other_row, other) in palette[..row].iter().enumerate() {
                for view in [|rgb| rgb, seen_without_green] {
                    let [left, right] = [oklab(view(*one)), oklab(view(*other))];
                    let squares = left.iter().zip(right).map(|(a, b)| (a - b).powi(2));
                    let distance = squares.sum::<f64>().sqrt();
                    assert!(distance >= LEAST, "{row} and {other_row}: {distance}");
                }
            }
        }
    }
}
