//! Which types fit, and which type a result has.

use drystone_expression::{Answer, Kind, Type, parse};

use crate::{checked, program};

#[test]
fn results_have_numpys_types() {
    for (text, dtype) in [
        ("f4_a + f4_b", Type::F4),
        ("f4_a + 1", Type::F4),
        ("f4_a * 0.1", Type::F4),
        ("sqrt(2) * f4_a", Type::F4),
        ("f4_a + f8_a", Type::F8),
        ("i2_a + f4_a", Type::F4),
        ("i4_a + f4_a", Type::F8),
        ("u1_a + i1_a", Type::I2),
        ("u4_a + i4_a", Type::I8),
        ("u2_a + i4_a", Type::I4),
        ("u8_a + u1_a", Type::U8),
        ("i1_a + 1", Type::I1),
        ("i4_a + 1.5", Type::F8),
        ("i1_a / i1_b", Type::F8),
        ("i4_a / 2", Type::F8),
        ("i4_a // 2", Type::I4),
        ("i4_a ** 3", Type::I4),
        ("f4_a ** 3", Type::F4),
        ("-u1_a", Type::U1),
        ("floor(i4_a)", Type::I4),
        ("floor(f4_a)", Type::F4),
        ("where(bool_a, 1, 0)", Type::I8),
        ("where(bool_a, 1.0, 0)", Type::F8),
        ("where(bool_a, f4_a, 0)", Type::F4),
        ("where(bool_a, bool_b, true)", Type::Bool),
        ("i8_a > u8_a", Type::Bool),
        ("u1_a < 300", Type::Bool),
        ("isnan(i4_a)", Type::Bool),
        ("f4(i8_a) < f4_a", Type::Bool),
        ("i8_a & 0xff", Type::I8),
        ("bool(i4_a) & bool_a", Type::Bool),
        ("1 + 2", Type::I8),
        ("1 < 2", Type::Bool),
        ("18446744073709551615", Type::U8),
        ("P.f4_x - P.f4_y", Type::F4),
        ("f4_a ** 1", Type::F4),
        ("f4(f4_a)", Type::F4),
    ] {
        assert_eq!(program(text).dtype(), dtype, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_says_what_to_write() {
    for (text, kind, says) in [
        (
            "i8_a > 0.5",
            Kind::Type,
            "a 64-bit integer (i8) meets the float 0.5; write an integer constant, or cast",
        ),
        ("i8_a + f8_a", Kind::Type, "the operands are i8 and f8; a 64-bit integer is not exact as a float"),
        ("u8_a < f4_a", Kind::Type, "cast it by f8(...)"),
        ("u8_a + i4_a", Kind::Type, "no integer type holds both"),
        ("i8_a / i8_b", Kind::Type, "write `//`"),
        ("sqrt(i4_a)", Kind::Type, "cast by f8(...)"),
        ("bool_a + 1", Kind::Type, "a truth value is not a number"),
        ("bool_a == 1", Kind::Type, "use it as a condition"),
        ("bool_a < bool_b", Kind::Type, "truth values have no order"),
        ("i4_a & 4 == 4", Kind::Type, "comparisons bind tighter"),
        ("f4_a > 3 & f4_b", Kind::Type, "comparisons bind tighter"),
        ("f4_a & f4_b", Kind::Type, "compare the floats"),
        ("f4_a ^ 2", Kind::Type, "`**` raises to a power"),
        ("~i4_a", Kind::Type, "`invert(n)` flips the bits"),
        ("invert(f4_a)", Kind::Type, "takes an integer"),
        ("i4_a ** i4_b", Kind::Type, "raised to a constant"),
        ("i4_a ** -1", Kind::Type, "negative power"),
        ("f4_a << 1", Kind::Type, "shifts take integers"),
        ("where(i4_a, 1, 2)", Kind::Type, "compare it"),
        ("where(1, 1, 2)", Kind::Type, "compare it"),
        ("where(bool_a, bool_b, 1)", Kind::Type, "truth value"),
        ("u1_a + 300", Kind::Constant, "not a value of u1, which holds 0 to 255"),
        ("u1(300)", Kind::Constant, "not a value of u1"),
        ("f4_a > 16777217", Kind::Constant, "the nearest is 16777216"),
        ("f8_a > 9007199254740993", Kind::Constant, "not a value of f8"),
        ("f4_a < 1e300", Kind::Constant, "beyond the range of f4"),
        ("9223372036854775807 * 4", Kind::Constant, "more than 64 bits"),
        ("1 / 0", Kind::Constant, "divided by the constant 0"),
        ("text > 3", Kind::Type, "it holds texts"),
        ("presure > 3", Kind::Unknown, "did you mean `pressure`?"),
        ("fields/q > 3", Kind::Unknown, "stands between backticks: `fields/p`"),
    ] {
        let error = checked(text).expect_err(text);
        assert_eq!(error.kind, kind, "{text}: {error}");
        let message = format!("{}; {}", error.found, error.help.clone().unwrap_or_default());
        assert!(message.contains(says), "{text}: {message}");
        assert!(error.at.is_some(), "{text}");
    }
}

#[test]
fn an_error_marks_the_part_that_does_not_fit() {
    let text = "f4_a > 1 & (i8_a + 1 > 0.5)";
    let error = checked(text).unwrap_err();
    assert_eq!(&text[error.at.clone().unwrap()], "i8_a + 1 > 0.5");
    assert!(error.found.starts_with("`i8_a + 1 > 0.5`: "), "{error}");
}

#[test]
fn a_name_is_asked_for_once() {
    let mut asked = Vec::new();
    parse("u + v * u - u[x+1]")
        .unwrap()
        .check(|name| {
            asked.push(name.to_string());
            Answer::Type(Type::F4)
        })
        .unwrap();
    assert_eq!(asked, ["u", "v", "u[x+1]"]);
}

#[test]
fn a_program_can_be_printed() {
    assert_eq!(
        program("i2_a * f4_b > 0.1").to_string(),
        "0: i2 = i2_a\n1: f4 = f4_b\n2: f4 = f4 #0\n3: f4 = #2 * #1\n4: f4 = constant 0.10000000149011612\n\
         5: bool = #3 > #4"
    );
}
