package guest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/guest"
)

var (
	update = flag.Bool("update", false, "rewrite the tables of e2e/attack/testdata for the guests' kernels")
	only   = flag.String("only", "", "run these suites only, by their names with commas between")
	times  = flag.Int("times", 1, "run each test so often, to find what fails now and then")
)

// bootLimit bounds one guest that runs each test once.
const bootLimit = 40 * time.Minute

// suite is a package whose tests run in a guest.
type suite struct {
	Name, Dir string
	Args, Env []string
	Seconds   int
	pkg       string
	kernels   []string // kernels to run on; nil means all
}

// program returns the name of the suite's test binary.
func (s suite) program() string { return filepath.Base(s.pkg) + ".test" }

// exec2Tests are the driver tests that need only Landlock ABI 6 and a shell: others need Debian's
// tools, or a later kernel.
const exec2Tests = "^(TestNoDefaults|TestOOMScore|TestLimits|TestRun|TestFiles|TestSandbox|TestCredentials|TestDescriptors|TestPlantedLink|TestStop|TestSignal|" +
	"TestMemoryLimit|TestStats|TestGroup|TestRecover|TestProcessLimit|TestExecIsAsTheTask|TestExecCountsInTheTask|TestProcesses|TestPrivateTmp|TestOwnNetwork|TestPIDsLimit|TestNetwork|TestUnveil|" +
	"TestConfine|TestConfineBeforeStart|TestConfineAboveTheLimit|TestConfineAndFailedStart|TestConfineOutOfMemory)$"

// artifactTests and templateTests are the attacks whose defence depends on the kernel: its confinement,
// its limits and its file system. The guest has no Git.
const (
	artifactTests = "^(TestFile|TestHostileArchives|TestSparse|TestSpecialBits|TestCase|TestBombs|TestCaptured.*|TestSidecar|TestSlowBody|TestManyAtOnce|TestMemoryOfTask)$"
	templateTests = "^(TestStaticFiles|TestSwapped.*|TestObstacles|TestHostileProgram|TestFloodingProgram|TestProgramDies.*)$"
)

// suites are in the order of execution. Their seconds bound a suite that hangs. CI runs the guests beside other
// tests: the table, which takes seven minutes of a busy machine, may take twice as long.
var suites = []suite{
	{Name: "cgroup", pkg: "internal/cgroup", Seconds: 300, kernels: []string{"6.1"}},
	{Name: "launch", pkg: "internal/launch", Seconds: 300, kernels: []string{"6.1"}},
	{Name: "landlock", pkg: "internal/landlock", Seconds: 300},
	{Name: "sandbox", pkg: "internal/sandbox", Seconds: 300, kernels: []string{"6.1"}},
	{Name: "exec2", pkg: "drivers/exec2", Seconds: 600, kernels: []string{"6.12"}, Args: []string{"-test.run=" + exec2Tests}},
	{Name: "process", pkg: "drivers/process", Seconds: 600, kernels: []string{"6.12"}},
	{Name: "artifact", pkg: "client/artifact", Seconds: 600, kernels: []string{"6.12"},
		Args: []string{"-test.short", "-test.run=" + artifactTests}},
	{Name: "template", pkg: "client/template", Seconds: 600, kernels: []string{"6.12"}, Args: []string{"-test.run=" + templateTests}},
	{Name: "engine", pkg: "internal/render/engine", Seconds: 600, kernels: []string{"6.12"},
		Args: []string{"-test.run=^(TestLimits|TestLargest|TestNoSpecialFiles|TestFileStaysInside)$"}},
	{Name: "table", pkg: "e2e/attack", Seconds: 1200, Args: []string{"-test.run=TestGuestTable"}},
	{Name: "bombs", pkg: "e2e/attack", Seconds: 600, Args: []string{"-test.run=TestBombs"}, kernels: []string{"6.1"}},
}

// TestGuest runs the suites on each kernel.
func TestGuest(t *testing.T) {
	if os.Getenv("GUEST") == "" {
		t.Skip("set GUEST=1 to run tests on other kernels: it downloads 75 MB of Debian packages with apt-get, once, and installs none")
	}
	m := machine(t)
	kernels, err := m.Kernels()
	if err != nil {
		t.Fatal(err)
	}
	bin := buildAll(t)
	for name, kernel := range kernels {
		t.Run(name, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "initramfs")
			selected := chosen(name)
			writeImage(t, m, image, bin, selected)
			lines := boot(t, m, kernel, image)
			report(t, name, selected, lines)
		})
	}
}

// machine fetches the machine, or skips the test with instructions.
func machine(t *testing.T) *guest.Machine {
	t.Helper()
	dir := os.Getenv("GUEST_CACHE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "open-nomad-guest")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	m, err := guest.Fetch(ctx, dir)
	if err != nil {
		if os.Getenv("GUEST") == "required" {
			t.Fatal(err)
		}
		t.Skipf("the guest's packages (qemu-system-x86, busybox-static, linux-image-cloud-amd64) cannot be fetched: "+
			"run apt-get update, or allow apt-get to reach its mirror: %v", err)
	}
	return m
}

func chosen(kernel string) []suite {
	var out []suite
	for _, s := range suites {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.Name) || s.kernels != nil && !slices.Contains(s.kernels, kernel) {
			continue
		}
		s.Dir = "/" + s.pkg
		s.Seconds *= *times
		s.Args = append([]string{"/bin/" + s.program(), "-test.v", fmt.Sprintf("-test.count=%d", *times),
			fmt.Sprintf("-test.timeout=%ds", s.Seconds)}, s.Args...)
		s.Env = append(s.Env, "ATTACK_GUEST="+kernel, "ATTACK_PROBE=/bin/probe")
		if *update && s.Name == "table" {
			s.Args = append(s.Args, "-update")
		}
		out = append(out, s)
	}
	return out
}

// buildAll builds the static programs for the guests.
func buildAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const module = "github.com/open-nomad/open-nomad/"
	builds := [][]string{{"build", "-o", "init", module + "e2e/guest/init"}, {"build", "-o", "probe", module + "e2e/attack/probe"}}
	for _, s := range suites {
		if build := []string{"test", "-c", "-o", s.program(), module + s.pkg}; !slices.ContainsFunc(builds, func(b []string) bool {
			return slices.Equal(b, build)
		}) {
			builds = append(builds, build)
		}
	}
	for _, args := range builds {
		args = slices.Concat(args[:1], []string{"-tags=companion", "-trimpath", "-ldflags=-s -w"}, args[1:])
		i := slices.Index(args, "-o") + 1
		args[i] = filepath.Join(dir, args[i])
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// writeImage writes the files of a guest.
func writeImage(t *testing.T, m *guest.Machine, at, bin string, suites []suite) {
	t.Helper()
	f, err := os.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := guest.NewInitramfs(f)
	for _, d := range []string{"dev", "proc", "sys", "run", "root", "usr/bin", "sbin", "lib", "lib64", "usr/lib",
		"usr/local/bin", "mnt", "srv", "opt"} {
		a.Dir(d, 0o755)
	}
	a.Dir("tmp", 0o777)
	a.Dir("var/tmp", 0o777)
	a.Copy("init", 0o755, filepath.Join(bin, "init"))
	a.Copy("bin/probe", 0o755, filepath.Join(bin, "probe"))
	a.Copy("bin/busybox", 0o755, m.Busybox)
	applets, err := exec.Command(m.Busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" && name != "init" {
			a.Link("bin/"+name, "busybox")
		}
	}
	a.File("etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\ngames:x:5:60:games:/:/bin/false\n"+
		"nobody:x:65534:65534:nobody:/:/bin/false\n"))
	a.File("etc/group", 0o644, []byte("root:x:0:\ngames:x:60:\nnogroup:x:65534:\n"))
	a.File("etc/shadow", 0o600, []byte("root:*:1::::::\n"))
	a.File("etc/hosts", 0o644, []byte("127.0.0.1 localhost\n"))
	a.File("etc/resolv.conf", 0o644, nil) // tasks with a network get theirs over it
	copied := map[string]bool{}
	for _, s := range suites {
		if copied[s.pkg] {
			continue
		}
		copied[s.pkg] = true
		a.Copy("bin/"+s.program(), 0o755, filepath.Join(bin, s.program()))
		a.Dir(s.Dir, 0o755)
		data, err := filepath.Glob(filepath.Join("../..", s.pkg, "testdata/*.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range data {
			a.Copy(filepath.Join(s.Dir, "testdata", filepath.Base(d)), 0o644, d)
		}
	}
	list, err := json.Marshal(suites)
	if err != nil {
		t.Fatal(err)
	}
	a.File("commands.json", 0o644, list)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// boots is the maximum number of boots of a guest: the emulator's processors see code changes of
// each other late, and a kernel that patches its code sometimes panics.
const boots = 4

// boot runs a guest and returns the lines of its console.
func boot(t *testing.T, m *guest.Machine, kernel, image string) []string {
	t.Helper()
	var lines []string
	var err error
	for range boots {
		lines, err = bootOnce(t, m, kernel, image)
		if !panicked(lines) {
			break
		}
		t.Logf("the emulated kernel panicked:\n%s", strings.Join(lines[max(0, len(lines)-100):], "\n"))
	}
	if err != nil || !slices.Contains(lines, "== done") {
		t.Errorf("the guest did not come to its end: %v\n%s", err, strings.Join(lines[max(0, len(lines)-100):], "\n"))
	}
	return lines
}

// panicked reports whether a kernel panicked before the first process, or at a breakpoint with which it patches its
// code. Processes cannot cause either.
func panicked(lines []string) bool {
	has := func(text string) bool {
		return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, text) })
	}
	return has("Kernel panic") && (!has("== run ") || has("Oops: int3"))
}

func bootOnce(t *testing.T, m *guest.Machine, kernel, image string) (lines []string, bootErr error) {
	t.Helper()
	console, err := os.Create(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*times)*bootLimit)
	defer cancel()
	bootErr = m.Boot(ctx, kernel, image, console)
	if _, err := console.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(console); in.Scan(); {
		lines = append(lines, strings.TrimRight(in.Text(), "\r"))
	}
	return lines, bootErr
}

// report creates a subtest for each suite, and keeps rewritten tables.
func report(t *testing.T, kernel string, suites []suite, lines []string) {
	t.Helper()
	for _, s := range suites {
		t.Run(s.Name, func(t *testing.T) {
			part := between(lines, "== run "+s.Name, "== exit "+s.Name)
			if !slices.Contains(lines, "== exit "+s.Name+" 0") {
				t.Errorf("on kernel %s:\n%s", kernel, strings.Join(part, "\n"))
			}
			if !slices.ContainsFunc(part, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "--- PASS") }) {
				t.Errorf("no test of the suite passed:\n%s", strings.Join(part, "\n"))
			}
			for _, l := range part {
				if strings.HasPrefix(strings.TrimSpace(l), "--- ") {
					t.Log(l)
				}
			}
			if table := between(part, "== table guest-"+kernel, "== end of table"); *update && len(table) > 0 {
				at := filepath.Join("../attack/testdata", "guest-"+kernel+".txt")
				if err := os.WriteFile(at, []byte(strings.Join(table, "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// between returns the lines between the one that begins with from and the one that begins with to.
func between(lines []string, from, to string) []string {
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, from) })
	if i < 0 {
		return nil
	}
	rest := lines[i+1:]
	if j := slices.IndexFunc(rest, func(l string) bool { return strings.HasPrefix(l, to) }); j >= 0 {
		rest = rest[:j]
	}
	return rest
}
