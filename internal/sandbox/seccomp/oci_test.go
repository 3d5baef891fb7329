package seccomp

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lib "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// narrow is a profile that allows a few calls, with the constructs of common profiles.
const narrow = `{
  "defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38,
  "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}, {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": null}],
  "syscalls": [
    {"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group", "read", "read", "arm_fadvise64_64", "getxattrat"], "action": "SCMP_ACT_ALLOW", "args": null, "comment": "Names: any"},
    {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 0, "op": "SCMP_CMP_EQ"}]},
    {"names": ["personality"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 8, "valueTwo": 0, "op": "SCMP_CMP_EQ"}]},
    {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}, {"index": 1, "value": 3, "op": "SCMP_CMP_LT"}]},
    {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}], "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
    {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
    {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    {"names": ["ptrace"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "4.8"}},
    {"names": ["io_uring_setup"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "99.1"}},
    {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64"]}},
    {"names": ["mmap"], "action": "SCMP_ACT_LOG", "args": [{"index": 2, "value": 4, "valueTwo": 4, "op": "SCMP_CMP_MASKED_EQ"}]},
    {"names": ["munmap"], "action": "SCMP_ACT_LOG", "args": [{"index": 1, "value": 8589934592, "op": "SCMP_CMP_GE"}]},
    {"names": ["mprotect"], "action": "SCMP_ACT_TRAP", "args": [{"index": 1, "value": 9, "op": "SCMP_CMP_GT"}]},
    {"names": ["brk"], "action": "SCMP_ACT_KILL", "args": [{"index": 0, "value": 9, "op": "SCMP_CMP_LE"}]},
    {"name": "reboot", "action": "SCMP_ACT_KILL_PROCESS"}
  ]
}`

func parse(t *testing.T, text string) *Profile {
	t.Helper()
	p, err := Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	info, err := native()
	if err != nil {
		t.Fatal(err)
	}
	j := judgeOf(t, parse(t, narrow), Gaps{})
	const clone, brk, enosys = unix.SYS_CLONE, unix.SYS_BRK, 38
	tests := []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"listed", unix.SYS_READ, nil, allow},
		{"listed and newer than the library", unix.SYS_GETXATTRAT, nil, allow},
		{"not listed", unix.SYS_MOUNT, nil, no(enosys)},
		{"newer than all lists", lastKnown + 100, nil, no(enosys)},
		{"one value", unix.SYS_PERSONALITY, []uint64{0}, allow},
		{"another rule's value", unix.SYS_PERSONALITY, []uint64{8}, allow},
		{"other value", unix.SYS_PERSONALITY, []uint64{4}, no(enosys)},
		{"both conditions", unix.SYS_SOCKET, []uint64{unix.AF_INET, 1}, allow},
		{"one of two conditions", unix.SYS_SOCKET, []uint64{unix.AF_INET, 3}, no(enosys)},
		{"not that family", unix.SYS_SOCKET, []uint64{40, 1}, no(enosys)},
		{"that family by a high half", unix.SYS_SOCKET, []uint64{1<<32 | 40, 1}, no(unix.EINVAL)},
		{"that family by a wrong sign", unix.SYS_SOCKET, []uint64{0xffffffff<<32 | 40, 1}, no(unix.EINVAL)},
		{"no bit of the mask", clone, []uint64{17}, allow},
		{"a bit of the mask", clone, []uint64{unix.CLONE_NEWUSER}, no(enosys)},
		{"clone3", unix.SYS_CLONE3, nil, no(enosys)},
		{"new enough", unix.SYS_PTRACE, []uint64{16}, allow},
		{"not new enough", unix.SYS_IO_URING_SETUP, nil, no(enosys)},
		{"the bit", unix.SYS_MMAP, []uint64{0, 0, 5}, unix.SECCOMP_RET_LOG},
		{"not the bit", unix.SYS_MMAP, []uint64{0, 0, 3}, no(enosys)},
		{"64 bits, equal", unix.SYS_MUNMAP, []uint64{0, 1 << 33}, unix.SECCOMP_RET_LOG},
		{"64 bits, below", unix.SYS_MUNMAP, []uint64{0, 1<<33 - 1}, no(enosys)},
		{"trap", unix.SYS_MPROTECT, []uint64{0, 10}, unix.SECCOMP_RET_TRAP},
		{"no trap", unix.SYS_MPROTECT, []uint64{0, 9}, no(enosys)},
		{"kill", brk, []uint64{9}, unix.SECCOMP_RET_KILL_THREAD},
		{"no kill", brk, []uint64{10}, no(enosys)},
		{"old form", unix.SYS_REBOOT, nil, unix.SECCOMP_RET_KILL_PROCESS},
	}
	for _, tt := range tests {
		if got := j.of(t, tt.nr, tt.args...); got != tt.want {
			t.Errorf("%s: verdict = %#x, want %#x", tt.name, got, tt.want)
		}
	}
	if nr, ok := number(info, "arch_prctl"); ok {
		if got := j.of(t, nr); got != allow {
			t.Errorf("of this architecture: verdict = %#x", got)
		}
	}
	j.arch = 0x40000003 // i386, which the file lists too
	if got := j.of(t, unix.SYS_READ); got != no(unix.ENOSYS) {
		t.Errorf("foreign architecture: verdict = %#x, want ENOSYS", got)
	}
}

// TestAgainstOracle compares whole filters on many calls with a direct evaluation of the rules.
func TestAgainstOracle(t *testing.T) {
	info, err := native()
	if err != nil {
		t.Fatal(err)
	}
	long := `{"defaultAction": "SCMP_ACT_KILL", "syscalls": [{"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group"], "action": "SCMP_ACT_ALLOW"}`
	var names []string
	for name := range info.SyscallNames {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, n := range names[:150] { // the kernel takes no more
		if !slices.Contains(beforeExec, n) {
			long += fmt.Sprintf(`, {"names": [%q], "action": "SCMP_ACT_ERRNO", "errnoRet": %d, "args": [{"index": %d, "value": %d, "op": "SCMP_CMP_EQ"}]}`, n, i+1, i%6, i%3)
		}
	}
	all := `{"defaultAction": "SCMP_ACT_KILL", "syscalls": [{"names": ["` + strings.Join(names, `", "`) + `"], "action": "SCMP_ACT_ALLOW"}]}`
	for _, text := range []string{narrow, all, long + "]}"} {
		p, err := Parse("oracle", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		j := judgeOf(t, p, Gaps{})
		for nr := range uint32(600) {
			for _, v := range []uint64{0, 1, 2, 8, 40, 1 << 28, 1 << 33} {
				args := [6]uint64{v, v, v, v, v, v}
				got, err := j.verdict(call{nr, args})
				if err != nil {
					t.Fatal(err)
				}
				if got == no(unix.EINVAL) && v == 1<<33 || nr == unix.SYS_CLONE3 && !p.names("clone3") {
					continue
				}
				if want := oracle(p, nr, args); got != want {
					t.Fatalf("system call %d of %d: verdict = %#x, want %#x", nr, v, got, want)
				}
			}
		}
	}
}

// oracle evaluates the rules without a filter.
func oracle(p *Profile, nr uint32, args [6]uint64) uint32 {
	info, _ := native()
	for _, r := range p.rules {
		for _, n := range r.names {
			if own, ok := number(info, n); !ok || own != nr {
				continue
			}
			if !slices.ContainsFunc(r.when, func(c lib.Condition) bool { return !matches(c, args[c.Argument]) }) {
				return uint32(r.action)
			}
		}
	}
	return uint32(p.otherwise)
}

func matches(c lib.Condition, a uint64) bool {
	switch c.Operation {
	case lib.Equal:
		return a == c.Value
	case lib.NotEqual:
		return a != c.Value
	case lib.GreaterThan:
		return a > c.Value
	case lib.GreaterOrEqual:
		return a >= c.Value
	case lib.LessThan:
		return a < c.Value
	case lib.LessOrEqual:
		return a <= c.Value
	case lib.BitsSet:
		return a&c.Value != 0
	case lib.BitsNotSet:
		return a&c.Value == 0
	}
	panic("comparison")
}

func TestParseFaults(t *testing.T) {
	const start = `{"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group"], "action": "SCMP_ACT_ALLOW"}`
	with := func(entry string) string {
		return `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [` + start + `, ` + entry + `]}`
	}
	tests := []struct{ name, text, want string }{
		{"empty file", "", "the file is empty"},
		{"blank file", " \n", "the file is empty"},
		{"null", "null", "defaultAction: the action is missing"},
		{"no JSON", "{\n\n\"defaultAction\": nope}", "line 3"},
		{"two values", `{"defaultAction": "SCMP_ACT_ALLOW"} {}`, "more than one JSON value"},
		{"misspelt field", "{\n\"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"sycalls\": []}", `line 3: json: unknown field "sycalls"`},
		{"field in another case", "{\"defaultAction\": \"SCMP_ACT_ALLOW\",\n\"SYSCALLS\": []}", `line 2: field "SYSCALLS"`},
		{"field twice", "{\"defaultAction\": \"SCMP_ACT_ERRNO\",\n\"defaultAction\": \"SCMP_ACT_ALLOW\"}",
			`line 2: field "defaultAction" is unknown or duplicate`},
		{"no default", `{"syscalls": []}`, "defaultAction: the action is missing"},
		{"empty default", `{"defaultAction": ""}`, "defaultAction: the action is missing"},
		{"unknown default", `{"defaultAction": "ALLOW"}`, `defaultAction: "ALLOW" is not supported`},
		{"notify", with(`{"names": ["mount"], "action": "SCMP_ACT_NOTIFY"}`), `syscalls[1].action: "SCMP_ACT_NOTIFY" is not supported`},
		{"trace", with(`{"names": ["mount"], "action": "SCMP_ACT_TRACE"}`), "syscalls[1].action"},
		{"no action", with(`{"names": ["mount"]}`), "syscalls[1].action: the action is missing"},
		{"listener", `{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/x"}`, "listenerPath"},
		{"flags", `{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]}`, "flags[0]: SECCOMP_FILTER_FLAG_SPEC_ALLOW"},
		{"errno of no error", with(`{"names": ["mount"], "action": "SCMP_ACT_KILL", "errnoRet": 1}`), "does not allow an error number"},
		{"errno 0", with(`{"names": ["mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 0}`), "error number 0"},
		{"errno too high", with(`{"names": ["mount"], "action": "SCMP_ACT_ERRNO", "errnoRet": 4096}`), "error number 4096"},
		{"misspelt call", with(`{"names": ["read", "moutn"], "action": "SCMP_ACT_ALLOW"}`),
			`syscalls[1].names[1]: system call "moutn" is unknown`},
		{"no names", with(`{"names": [], "action": "SCMP_ACT_ALLOW"}`), "syscalls[1].names: none"},
		{"seventh argument", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]}`),
			"syscalls[1].args[0].index: 6"},
		{"unknown comparison", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 1, "op": "EQ"}]}`),
			`syscalls[1].args[0].op: "EQ"`},
		{"odd mask", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 3, "valueTwo": 1, "op": "SCMP_CMP_MASKED_EQ"}]}`), "syscalls[1].args[0].valueTwo"},
		{"mask of all of two bits", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 3, "valueTwo": 3, "op": "SCMP_CMP_MASKED_EQ"}]}`), "syscalls[1].args[0].valueTwo"},
		{"empty mask", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 0, "op": "SCMP_CMP_MASKED_EQ"}]}`),
			"syscalls[1].args[0].value"},
		{"second value of one", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 0, "valueTwo": 3, "op": "SCMP_CMP_EQ"}]}`), "allows only one value"},
		{"negative value", "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\n\"args\": [{\"value\": -1}]}]}", "line 2"},
		{"arguments of a new call", with(`{"names": ["listns"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 0, "op": "SCMP_CMP_EQ"}]}`), "syscalls[1]: arguments of listns"},
		{"other architectures only", `{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_MIPS"]}`, "architectures"},
		{"other map only", `{"defaultAction": "SCMP_ACT_ALLOW", "archMap": [{"architecture": "SCMP_ARCH_MIPS"}]}`, "archMap"},
		{"odd kernel", with(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "includes": {"minKernel": "six"}}`), "includes.minKernel"},
		{"two actions", with(`{"names": ["write"], "action": "SCMP_ACT_KILL"}`), "syscalls[1]: write has another action in syscalls[0]"},
		{"too long", with(strings.TrimSuffix(strings.Repeat(`{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 7, "op": "SCMP_CMP_EQ"}]},`, 500), ",")), "the kernel takes at most 4096"},
		{"no start", `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}`,
			"execve is refused: no task could start"},
		{"no start by name", `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_ERRNO"}]}`,
			"execve is refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("web", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "seccomp profile web") {
				t.Errorf("Parse() = %v, %v, want an error of profile web with %q", p, err, tt.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	good, fifo, big := filepath.Join(dir, "good"), filepath.Join(dir, "fifo"), filepath.Join(dir, "big")
	if err := os.WriteFile(good, []byte(narrow), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(big, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("web", good); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{"": "not absolute", "web.json": "not absolute", filepath.Join(dir, "none"): "no such file",
		dir: "not a regular file", fifo: "not a regular file", big: "larger than"} {
		if _, err := Load("web", path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q) = %v, want %q", path, err, want)
		}
	}
}

// TestWeaker checks which profiles permit more than the standard one.
func TestWeaker(t *testing.T) {
	allowAll := `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [`
	tests := []struct {
		name, text string
		want       string // among others; empty: nothing
	}{
		{"nothing refused", allowAll + `]}`, "mount"},
		{"nothing refused, logged", `{"defaultAction": "SCMP_ACT_LOG"}`, "bpf"},
		{"list without sockets", allowAll + `{"names": ["` + strings.Join(denied, `", "`) + `"], "action": "SCMP_ACT_ERRNO"}]}`, "raw sockets"},
		{"a narrow list", `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group", "read"], "action": "SCMP_ACT_ALLOW"}]}`, ""},
		{"one more", `{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group", "keyctl"], "action": "SCMP_ACT_ALLOW"}]}`, "keyctl"},
		{"one more for some arguments",
			`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["execve", "rt_sigaction", "rt_sigprocmask", "write", "exit_group"], "action": "SCMP_ACT_ALLOW"},
			{"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 5, "value": 12345, "op": "SCMP_CMP_EQ"}]}]}`, "bpf"},
		{"tracing", narrow, "ptrace seize"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(t, tt.text).Weaker()
			if err != nil || tt.want == "" && len(got) > 0 || tt.want != "" && !slices.Contains(got, tt.want) {
				t.Errorf("Weaker() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	p, _ := standardProfile(t)
	if got, err := p.Weaker(); err != nil || len(got) > 0 {
		t.Errorf("the standard profile is weaker than itself: %q, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(narrow))
	f.Add([]byte(`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"name": "mount", "action": "SCMP_ACT_ERRNO"}]}`))
	f.Add([]byte(`[{]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse("fuzz", raw)
		if err != nil {
			return
		}
		j := judgeOf(t, p, Gaps{})
		j.arch = 0x40000003
		if got := j.of(t, unix.SYS_WRITE); got != no(unix.ENOSYS) {
			t.Errorf("a foreign call passed: %#x", got)
		}
	})
}
