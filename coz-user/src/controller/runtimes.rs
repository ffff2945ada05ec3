//! Programs that make code while they run: which runtime it is that does, and how to have it write down what is where in that code (a
//! perf map, `/tmp/perf-PID.map`).

use std::path::Path;

use coz_common::abi::Stat;

use crate::kernel::control::Stats;

/// A runtime with a compiler of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What it is called.
    pub name: &'static str,
    /// How the names of its libraries begin.
    libraries: &'static [&'static str],
    /// How the names of its programs begin.
    programs: &'static [&'static str],
    /// How it gets to write a map.
    how: &'static str,
}

/// Those that can be told. A library says more than a program's name: with it the runtime is part of any program.
const RUNTIMES: [Runtime; 14] = [
    Runtime {
        name: "Java (HotSpot)",
        libraries: &["libjvm.so"],
        programs: &[],
        how: "start it with -XX:+PreserveFramePointer, so that its callers can be followed, and, while it is profiled, have it write \
              the map with `jcmd PID Compiler.perfmap` (Java 17 and later), again whenever much has been compiled since; what \
              -XX:+DumpPerfMapAtExit writes comes too late, and of older versions the agent perf-map-agent writes one",
    },
    Runtime {
        name: "Java (OpenJ9)",
        libraries: &["libj9vm", "libj9jit"],
        programs: &[],
        how: "start it with -XX:+PerfTool",
    },
    Runtime {
        name: ".NET",
        libraries: &["libcoreclr.so"],
        programs: &["dotnet"],
        how: "start it with DOTNET_PerfMapEnabled=1 in its environment (COMPlus_PerfMapEnabled=1 before .NET 6)",
    },
    Runtime {
        name: "Node.js",
        libraries: &["libnode.so"],
        programs: &["node"],
        how: "start it with `node --perf-basic-prof --interpreted-frames-native-stack`, or with these options in NODE_OPTIONS; the \
              second gives functions that are not compiled yet names of their own, too",
    },
    Runtime {
        name: "PyPy",
        libraries: &["libpypy"],
        programs: &["pypy"],
        how: "it writes none: with `--jit off` the time falls on its interpreter",
    },
    Runtime {
        name: "Numba (LLVM)",
        libraries: &["libllvmlite"],
        programs: &[],
        how: "it writes none: NUMBA_DISABLE_JIT=1 shows who calls what",
    },
    Runtime {
        name: "Python",
        libraries: &["libpython3"],
        programs: &["python3"],
        how: "start it with `python3 -X perf`, or with PYTHONPERFSUPPORT=1 in its environment (Python 3.12 and later)",
    },
    Runtime {
        name: "LuaJIT",
        libraries: &["libluajit"],
        programs: &["luajit"],
        how: "build LuaJIT with XCFLAGS=-DLUAJIT_USE_PERFTOOLS: it then names every trace as it compiles it; or see with `-joff` what \
              its interpreter takes",
    },
    Runtime {
        name: "Ruby",
        libraries: &["libruby"],
        programs: &["ruby"],
        how: "start it with `ruby --yjit --yjit-perf` (Ruby 3.3 and later)",
    },
    Runtime {
        name: "PHP",
        libraries: &["libphp", "opcache.so"],
        programs: &["php"],
        how: "set opcache.jit_debug=0x10 in its php.ini",
    },
    Runtime {
        name: "Erlang",
        libraries: &[],
        programs: &["beam.smp"],
        how: "start it with `erl +JPperf true`, or with that in ERL_FLAGS (OTP 24 and later)",
    },
    Runtime {
        name: "Mono",
        libraries: &["libmonosgen", "libmono-2.0"],
        programs: &["mono"],
        how: "start it with `mono --jitmap`, or with that in MONO_ENV_OPTIONS",
    },
    Runtime {
        name: "Wasmtime",
        libraries: &["libwasmtime"],
        programs: &["wasmtime"],
        how: "start it with `wasmtime run --profile=perfmap`",
    },
    Runtime {
        name: "QEMU",
        libraries: &[],
        programs: &["qemu-"],
        how: "start it with `-perfmap` (QEMU 8.0 and later)",
    },
];

/// What helps where the runtime is none of these.
const IN_GENERAL: &str = "have it write one, if it can: runtimes that support perf have an option for it";

/// The runtime of a program, by its file name and those of what it has mapped.
pub fn recognise<'a>(program: &str, mut mapped: impl Iterator<Item = &'a Path>) -> Option<&'static Runtime> {
    let begins =
        |name: &str, beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let of_library = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        RUNTIMES.iter().position(|runtime| begins(name, runtime.libraries))
    };
    // Several at once (Numba in Python): the earlier one in the table.
    let by_library = mapped.by_ref().filter_map(of_library).min();
    let by_name = || RUNTIMES.iter().position(|runtime| begins(program, runtime.programs));
    RUNTIMES.get(by_library.or_else(by_name)?)
}

/// A process that made code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// Its program's file name.
    pub program: String,
    /// Its id.
    pub pid: u32,
    /// What made it, if that is known.
    pub runtime: Option<&'static Runtime>,
    /// Whether it has written a map of it.
    pub has_map: bool,
}

/// From this share of the samples on, code that is in no file is worth a word.
const MANY: f64 = 0.1;

/// Where a good part of the samples went through code that is in no file, and whose functions are not known: what helps.
/// `in_scope`: such code was asked for (`--scope-binary '[jit]'`).
#[must_use]
pub fn advice(stats: &Stats, makers: &[Maker], in_scope: bool) -> Option<String> {
    let share = stats.get(Stat::MadeAtRunTime) as f64 / stats.get(Stat::Samples).max(1) as f64;
    if share <= MANY {
        return None;
    }
    let without: Vec<&Maker> = makers.iter().filter(|maker| !maker.has_map).collect();
    let percent = (100.0 * share).round();
    let scope = if in_scope { "" } else { ". Then bring that code into scope: --scope-binary '[jit]'" };
    let Some(first) = without.first() else {
        // Its map says what is where, and nobody asked.
        let first = makers.first().filter(|_| !in_scope)?;
        return Some(format!(
            "{percent} % of the samples went through code that {} made at run time (a JIT compiler's): its time counts for whoever \
             called it, or for no line. Its perf map has names for it: --scope-binary '[jit]' brings it into scope",
            who(first, makers.len())
        ));
    };
    let kind = first.runtime.map_or_else(String::new, |runtime| format!(" of {}", runtime.name));
    let how = first.runtime.map_or(IN_GENERAL, |runtime| runtime.how);
    let how = how.replace("PID", &first.pid.to_string());
    Some(format!(
        "{percent} % of the samples went through code that {} made at run time (the JIT compiler{kind}), and no perf map \
         (/tmp/perf-PID.map) tells what is where in it: its time counts for whoever called it, or for no line. To have names for it, \
         {how}{scope}",
        who(first, without.len())
    ))
}

fn who(first: &Maker, count: usize) -> String {
    let Maker { program, pid, .. } = first;
    match count.saturating_sub(1) {
        0 => format!("{program} ({pid})"),
        1 => format!("{program} ({pid}) and 1 more process"),
        n => format!("{program} ({pid}) and {n} more processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(program: &str, mapped: &[&str]) -> Option<&'static str> {
        recognise(program, mapped.iter().map(Path::new)).map(|runtime| runtime.name)
    }

    #[test]
    fn runtimes_are_known_by_their_libraries_and_else_by_their_programs() {
        let java = ["/usr/bin/java", "/usr/lib/jvm/java-17/lib/server/libjvm.so", "/lib/libc.so.6"];
        assert_eq!(recognised("java", &java), Some("Java (HotSpot)"));
        assert_eq!(recognised("java", &["/opt/ibm/lib/default/libj9vm29.so"]), Some("Java (OpenJ9)"));
        assert_eq!(recognised("my-server", &["/x/libcoreclr.so"]), Some(".NET"), "any program's name");
        assert_eq!(recognised("nginx", &["/usr/lib/libluajit-5.1.so.2"]), Some("LuaJIT"), "part of a server");
        assert_eq!(recognised("node", &["/usr/bin/node"]), Some("Node.js"));
        assert_eq!(recognised("python3.12", &[]), Some("Python"));
        let numba = ["/usr/lib/libpython3.12.so.1.0", "/x/llvmlite/binding/libllvmlite.so"];
        assert_eq!(
            recognised("python3.12", &numba),
            Some("Numba (LLVM)"),
            "what compiles, not what calls it"
        );
        assert_eq!(recognised("qemu-system-x86_64", &[]), Some("QEMU"));
        assert_eq!((recognised("app", &["/lib/libc.so.6"]), recognised("", &[])), (None, None));
    }

    fn maker(program: &str, has_map: bool) -> Maker {
        let runtime = recognise(program, std::iter::empty());
        Maker { program: program.to_owned(), pid: 7, runtime, has_map }
    }

    fn said(through: u64, makers: &[Maker], in_scope: bool) -> String {
        let stats = Stats::of(&[(Stat::Samples, 1000), (Stat::MadeAtRunTime, through)]);
        advice(&stats, makers, in_scope).unwrap_or_default()
    }

    #[test]
    fn code_without_a_perf_map_is_told_with_what_helps() {
        assert_eq!(said(500, &[], false), "", "frames in no file alone are no compiler's");
        assert_eq!(said(50, &[maker("node", false)], false), "", "it makes code, and hardly runs it");
        let node = said(500, &[maker("node", false)], false);
        assert!(node.starts_with("50 % of the samples") && node.contains("node (7) made"), "{node}");
        assert!(node.contains("of Node.js") && node.contains("node --perf-basic-prof"), "{node}");
        assert!(node.ends_with("--scope-binary '[jit]'") && !node.contains("python"), "{node}");
        assert!(!said(500, &[maker("node", false)], true).contains("--scope-binary"), "it is in scope");
    }

    #[test]
    fn commands_name_the_process() {
        let mut java = maker("java", false);
        java.runtime = recognise("java", [Path::new("libjvm.so")].into_iter());
        let java = said(500, &[java], false);
        assert!(
            java.contains("`jcmd 7 Compiler.perfmap`") && java.contains("PreserveFramePointer"),
            "{java}"
        );
    }

    #[test]
    fn a_runtime_that_nobody_knows_is_told_too() {
        let makers = [maker("app", false), maker("app", false), maker("node", true)];
        let unknown = said(500, &makers, false);
        assert!(
            unknown.contains("app (7) and 1 more process made") && unknown.contains("if it can"),
            "{unknown}"
        );
    }

    #[test]
    fn a_map_that_nobody_asked_for_is_mentioned() {
        let mapped = said(500, &[maker("node", true)], false);
        assert!(mapped.contains("has names for it: --scope-binary '[jit]'"), "{mapped}");
        assert_eq!(
            said(500, &[maker("node", true)], true),
            "",
            "functions that the map does not have are few"
        );
    }
}
