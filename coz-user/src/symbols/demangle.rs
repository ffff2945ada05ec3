//! From symbols to the names that people write.

use std::borrow::Cow;

/// The readable name of a symbol: Rust (legacy and v0, without the hash), C++ (with parameters), else as it is.
///
/// What a compiler appends to copies of a function (`.constprop.0`, `.cold`, `.llvm.123`) is left out.
#[must_use]
pub fn demangle(symbol: &str) -> String {
    let (base, _) = split_clone(symbol);
    rust(base).or_else(|| cpp(base, true)).unwrap_or_else(|| base.to_owned())
}

/// The readable name without C++ parameters and return type, and without template arguments at its end.
#[must_use]
pub fn short_name(symbol: &str) -> String {
    let (base, _) = split_clone(symbol);
    let name = rust(base).or_else(|| cpp(base, false)).unwrap_or_else(|| base.to_owned());
    without_arguments(&name).into_owned()
}

/// A symbol, and the suffix that a compiler gave to a copy of it (empty if none): `f`, `.constprop.0`.
#[must_use]
pub fn split_clone(symbol: &str) -> (&str, &str) {
    const MARKS: [&str; 7] = [".constprop.", ".isra.", ".part.", ".cold", ".llvm.", ".clone.", ".lto_priv."];
    let cut = MARKS.iter().filter_map(|mark| symbol.find(mark)).filter(|at| *at > 0).min();
    symbol.split_at(cut.unwrap_or(symbol.len()))
}

fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    Some(format!("{name:#}"))
}

/// How deep a C++ name may nest. A name that is none is tried in every way that its beginning may mean, twice as many
/// with each level or two: a second at 96, 20 ms at 64. Of 122,000 names of LLVM's and the standard library's, 23
/// are nested more deeply than this and stay as they are.
const NESTED: u32 = 64;

fn cpp(symbol: &str, parameters: bool) -> Option<String> {
    if !symbol.starts_with("_Z") && !symbol.starts_with("__Z") {
        return None;
    }
    let bounded = cpp_demangle::ParseOptions::default().recursion_limit(NESTED);
    let parsed = cpp_demangle::Symbol::new_with_options(symbol, &bounded).ok()?;
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(160);
    let options = if parameters { options } else { options.no_params().no_return_type() };
    parsed.demangle_with_options(&options).ok()
}

/// `a::f<int>` and `a::f::<i32>` become `a::f`; operators such as `operator<` stay.
fn without_arguments(name: &str) -> Cow<'_, str> {
    if !name.ends_with('>') || name.contains("operator") {
        return Cow::Borrowed(name);
    }
    let mut depth = 0i32;
    for (at, c) in name.char_indices().rev() {
        match c {
            '>' if name[..at].ends_with('-') => {}
            '>' => depth += 1,
            '<' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let bare = name[..at].trim_end_matches("::");
            return if bare.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(bare.to_owned()) };
        }
    }
    Cow::Borrowed(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_names_lose_their_hash() {
        assert_eq!(demangle("_ZN3app4work17h0123456789abcdefE"), "app::work");
        assert_eq!(demangle("_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn cpp_names_keep_what_tells_overloads_apart() {
        assert_eq!(demangle("_ZN3app4workEi"), "app::work(int)");
        assert_eq!(short_name("_ZN3app4workEi"), "app::work");
        assert_eq!(short_name("_Z5twiceIiET_S0_"), "twice");
        assert_eq!(short_name("_ZN3appltERKNS_1AES2_"), "app::operator<");
    }

    #[test]
    fn c_names_and_nonsense_stay() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_Z"), "_Z");
        assert_eq!(demangle(""), "");
    }

    #[test]
    fn a_name_that_may_mean_anything_is_given_up() {
        for levels in [8, 20, 100, 1000] {
            let name = format!("_ZSt4sort{}", "ILSt".repeat(levels));
            assert_eq!(demangle(&name), name, "or this test does not end");
        }
    }

    #[test]
    fn copies_are_called_like_the_original() {
        assert_eq!(demangle("work.constprop.0"), "work");
        assert_eq!(demangle("_ZN3app4workEi.cold"), "app::work(int)");
        assert_eq!(split_clone("f.isra.0.cold"), ("f", ".isra.0.cold"));
        assert_eq!(split_clone("a.b"), ("a.b", ""));
    }

    #[test]
    fn arguments_are_taken_off_the_end_only() {
        assert_eq!(without_arguments("<a::B<T> as c::D>::f::<i32>"), "<a::B<T> as c::D>::f");
        assert_eq!(without_arguments("a<b>::c"), "a<b>::c");
        assert_eq!(without_arguments("<a>"), "<a>");
        assert_eq!(without_arguments("f::<fn(i32) -> i32>"), "f");
    }
}
