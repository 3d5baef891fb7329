package attack_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/e2e/attack"
	"github.com/open-nomad/open-nomad/internal/landlock"
)

var update = flag.Bool("update", false, "rewrite the tables of testdata")

// situation is one column: a way to run the probe.
type situation struct {
	name    string
	driver  string         // "" is exec2
	config  map[string]any // further options of the task
	plugins string         // further blocks of the agent
	user    string         // "" is the driver's default: of exec2, a dynamic user of the task
	unveil  []string       // additions to the default grants
	network string
	ports   bool   // TCP to port 1 only
	session bool   // through alloc exec, in a running task
	abi     string // simulated Landlock version; "" is the kernel's
	block   string // additions to the plugin's block
	agent   string // user of the agent; "" is root
	alone   bool   // no user namespaces
	allows  []reason
}

// reason explains why operations with a name prefix are allowed in a situation.
type reason struct{ prefix, why string }

const (
	beforeTruncate = "Landlock can restrict truncation by path from ABI 3: file modes decide"
	beforeIoctl    = "Landlock can restrict ioctl from ABI 5: only devices whose opening was granted are reached"
	beforeScopes   = "Landlock can restrict abstract sockets from ABI 6: network mode none does too"
)

// unveilAll unveils everything.
const unveilAll = "rwxc:/"

// situations are the columns of testdata/situations.txt.
var situations = []situation{
	{name: "own-user"},
	{name: "named-user", user: namedUser, allows: []reason{
		{"mate/api-socket", "tasks of one allocation and one named user reach each other's API socket, which asks for a token: give tasks users of their own"},
	}},
	{name: "exec-session", session: true, allows: []reason{
		{"own/log-pipe-read", "the output of a session goes to its caller by a pipe of its own, not to the log"},
	}},
	{name: "no-network", network: "none"},
	{name: "tcp-ports", ports: true},
	{name: "all-unveiled", unveil: []string{unveilAll}, allows: []reason{
		{"files/", "the operator unveiled everything: file modes decide, and these are open to all"},
		{"ipc/dev-shm", "the operator unveiled everything"},
		{"device/", "the operator unveiled everything: modes and device groups decide"},
		{"own/", "the operator unveiled everything"},
	}},
}

// lacking returns the reasons for what a Landlock version cannot restrict.
func lacking(abi int) []reason {
	var out []reason
	for _, r := range []struct {
		abi    int // first version that can
		reason reason
	}{{landlock.ABITruncate, reason{"files/truncate", beforeTruncate}}, {landlock.ABIIoctl, reason{"device/ioctl", beforeIoctl}},
		{landlock.ABIScopes, reason{"connect/abstract", beforeScopes}}} {
		if abi < r.abi {
			out = append(out, r.reason)
		}
	}
	return out
}

// older returns the columns of testdata/landlock*.txt: every version that this kernel can simulate,
// for a dynamic user or a named one.
func older(like situation) []situation {
	var out []situation
	for abi := landlock.ABIFiles; abi < landlock.ABIAudit; abi++ {
		s := like
		s.name, s.abi = "abi-"+strconv.Itoa(abi), strconv.Itoa(abi)
		s.allows = slices.Concat(like.allows, lacking(abi))
		out = append(out, s)
	}
	return out
}

// A sandbox allows exactly what the table allows, with a reason.
func TestTable(t *testing.T) {
	if abi, err := landlock.ABI(); err != nil || abi != landlock.ABIAudit {
		t.Skipf("the table is of kernels with Landlock ABI %d: this one has %d, %v", landlock.ABIAudit, abi, err)
	}
	all := check(t, "situations", situations)
	for _, op := range attack.Operations() {
		allowed := slices.ContainsFunc(all, func(r map[string]string) bool { return r[op.Name] == "allowed" })
		if op.Why != "" && !allowed {
			t.Errorf("%s gives a reason for being allowed, and is allowed nowhere", op.Name)
		}
	}
}

// The same on the kernel of a guest (package e2e/guest), which is slow and therefore runs less
// often.
func TestGuestTable(t *testing.T) {
	guest := os.Getenv("ATTACK_GUEST")
	if guest == "" {
		t.Skip("runs in the guests of e2e/guest")
	}
	abi, err := landlock.ABI()
	if err != nil {
		t.Fatal(err)
	}
	columns := slices.Clone(situations[:2])
	for i, s := range columns {
		columns[i].allows = slices.Concat(s.allows, lacking(abi))
	}
	check(t, "guest-"+guest, columns)
}

// Without Landlock in the kernel there is no sandbox: the node reports it, and jobs are placed
// elsewhere.
func TestNoLandlock(t *testing.T) {
	needs(t, 1)
	g := newGround(t)
	h := g.startHost("", "", shimABI+"=0")
	id, err := h.NodeID()
	if err != nil {
		t.Fatal(err)
	}
	node, _, err := h.Client.Nodes().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := node.Drivers["exec2"]
	if d == nil || d.Healthy || !strings.Contains(strings.ToLower(d.HealthDescription), "landlock") {
		t.Errorf("driver exec2 = %+v, want it unhealthy for want of Landlock", d)
	}
	if _, _, err := h.Client.Jobs().Register(job("refused", "batch", situation{}, h.task("t", situation{}, "uid")), nil); err != nil {
		t.Fatal(err)
	}
	h.within("the evaluation that finds no node", func() bool {
		evals, _, err := h.Client.Jobs().Evaluations("refused", nil)
		return err == nil && slices.ContainsFunc(evals, func(e *api.Evaluation) bool { return e.Status == "blocked" })
	})
	if allocs, _, err := h.Client.Jobs().Allocations("refused", true, nil); err != nil || len(allocs) > 0 {
		t.Errorf("allocations = %v, %v, want none", allocs, err)
	}
}

// The same with older versions of Landlock, as far as this kernel can simulate them.
func TestOlderLandlock(t *testing.T) {
	needs(t, landlock.ABIAudit)
	t.Run("own-user", func(t *testing.T) { check(t, "landlock", older(situations[0])) })
	t.Run("named-user", func(t *testing.T) { check(t, "landlock-named", older(situations[1])) })
}

func needs(t *testing.T, abi int) {
	t.Helper()
	if got, err := landlock.ABI(); err != nil || got < abi {
		t.Skipf("needs Landlock ABI %d: have %d, %v", abi, got, err)
	}
}

// check runs all situations and compares the results with a table.
func check(t *testing.T, name string, columns []situation) []map[string]string {
	all := make([]map[string]string, len(columns))
	for i, s := range columns {
		ok := t.Run(s.name, func(t *testing.T) { all[i] = probe(t, s) })
		if !ok {
			t.FailNow()
		}
	}
	byMode(columns, all)
	reasoned(t, columns, all)
	got := render(columns, all)
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("== table %s\n%s== end of table\n", name, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range diff(here(string(want)), here(got)) {
		t.Error(line)
	}
	return all
}

// opened are the devices whose mode 0666 is set by udev. Without udev they belong to root alone.
var opened = map[string]string{"device/fuse": "/dev/fuse", "device/tun": "/dev/net/tun"}

// byMode replaces the result of a situation that unveils everything, if it is what the mode of an opened device says.
func byMode(columns []situation, all []map[string]string) {
	for i, s := range columns {
		if !slices.Contains(s.unveil, unveilAll) {
			continue
		}
		for name, device := range opened {
			want := "denied EACCES"
			if info, err := os.Stat(device); err == nil && info.Mode().Perm()&0o006 == 0o006 {
				want = "allowed"
			}
			if all[i][name] == want {
				all[i][name] = "as its mode says"
			}
		}
	}
}

// rare are the devices that not every machine has, by operation.
var rare = map[string]string{"device/kvm": "/dev/kvm"}

// here removes the operations from a table whose device this machine does not have.
func here(table string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		name, _, _ := strings.Cut(line, " ")
		if device, ok := rare[name]; ok {
			if _, err := os.Lstat(device); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

// probe runs all operations in one situation and returns the results.
func probe(t *testing.T, s situation) map[string]string {
	g := newGround(t)
	var env []string
	if s.abi != "" {
		env = []string{shimABI + "=" + s.abi}
	}
	if s.alone {
		env = append(env, shimAlone+"=1")
	}
	g.agentUser = s.agent
	switch {
	case s.inRoot():
		g.clientBlock = g.rootBlock()
	case s.driver == "java":
		g.clientBlock = g.rootBlock()
		class := filepath.Join(g.dir, "granted", testtask.JavaClass+".class")
		if err := os.WriteFile(class, testtask.JavaProgram(), 0o644); err != nil {
			t.Fatal(err)
		}
	case s.driver == "qemu":
		g.copyProbe(filepath.Join(g.dir, "granted/qemu-system-"+emulator), 0o755)
		env = append(env, fmt.Sprintf("PATH=%s/granted:%s", g.dir, os.Getenv("PATH")))
		s.plugins = g.pluginQemu()
		g.writeTargets() // the image of every task
	}
	h := g.startHost(s.block, s.plugins, env...)
	h.settle(s)
	mate := h.task("mate", s.victim(), "stay", canary)
	mate.Lifecycle = &api.TaskLifecycle{Hook: "prestart", Sidecar: true}
	text := ""
	if s.session {
		text = h.inSession(h.run(job("attack", "service", s, mate, h.task("probe", s, "stay", canary)), "running"), g.writeTargets())
	} else {
		al := h.run(job("attack", "batch", s, mate, h.task("probe", s, "run", g.writeTargets())), "complete")
		if text = h.log(al, "probe"); !strings.HasSuffix(text, "end\n") {
			out, _ := exec.Command("ls", "-la", filepath.Join(g.targets.DataDir, "alloc", al.ID, "alloc/logs")).CombinedOutput()
			t.Logf("logs:\n%s", out)
		}
	}
	if err := g.unchanged(); err != nil && !slices.Contains(s.unveil, unveilAll) {
		t.Error(err)
	}
	return results(t, text)
}

// inSession runs the probe through alloc exec in a running task.
func (h *host) inSession(al *api.AllocationListStub, targets string) string {
	t := h.t
	t.Helper()
	h.within("the task", func() bool { return strings.HasPrefix(h.log(al, "probe"), "up") })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	code, err := h.Client.Allocations().Exec(ctx, &api.Allocation{ID: al.ID, NodeID: al.NodeID}, "probe", false,
		[]string{h.probe, "run", targets}, strings.NewReader(""), &out, &errs, nil, nil)
	if err != nil || code != 0 || errs.Len() > 0 {
		t.Fatalf("Exec() = %d, %v: %s", code, err, errs.String())
	}
	return out.String()
}

// reasoned checks that every allowed operation has a reason, and that every reason is needed.
func reasoned(t *testing.T, columns []situation, all []map[string]string) {
	t.Helper()
	for i, s := range columns {
		used := map[reason]bool{}
		for name, verdict := range all[i] {
			if verdict != "allowed" {
				continue
			}
			r, ok := s.reason(name)
			used[r] = true
			if !ok && why(name) == "" {
				t.Errorf("%s is allowed in %s without a reason", name, s.name)
			}
		}
		for _, r := range s.allows {
			if !used[r] {
				t.Errorf("in %s nothing needs the reason for %s", s.name, r.prefix)
			}
		}
	}
}

func (s situation) reason(name string) (reason, bool) {
	for _, r := range s.allows {
		if strings.HasPrefix(name, r.prefix) && why(name) == "" {
			return r, true
		}
	}
	return reason{}, false
}

func why(name string) string {
	for _, op := range attack.Operations() {
		if op.Name == name {
			return op.Why
		}
	}
	return ""
}

// render returns the table: one line for each operation, with the reasons at the end, and the
// reasons of single situations below.
func render(columns []situation, all []map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a task of %s is allowed, by operation and situation. To rewrite:\n# go test -tags companion ./e2e/attack -run '%s' -update\n\n",
		cmp.Or(columns[0].driver, "exec2"), tests(columns[0].driver))
	titles := []string{"operation"}
	for _, s := range columns {
		titles = append(titles, s.name)
	}
	rows := [][]string{append(titles, "why that is no harm")}
	for _, name := range slices.Sorted(maps.Keys(all[0])) {
		row := []string{name}
		anywhere := false
		for i := range columns {
			row = append(row, all[i][name])
			anywhere = anywhere || all[i][name] == "allowed"
		}
		reason := ""
		if anywhere {
			reason = cmp.Or(why(name), "see below")
		}
		rows = append(rows, append(row, reason))
	}
	aligned(&b, rows)
	b.WriteString("\n")
	for _, s := range columns {
		for _, r := range s.allows {
			fmt.Fprintf(&b, "%s: %s* is allowed: %s\n", s.name, r.prefix, r.why)
		}
	}
	return b.String()
}

// tests returns the tests that write the tables of a driver.
func tests(driver string) string {
	switch driver {
	case "":
		return "TestTable|TestOlderLandlock"
	case "java":
		return "TestJavaTable"
	case "qemu":
		return "TestQemuTable"
	}
	return "TestRootTable"
}

func aligned(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", width[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// diff lists the lines that differ.
func diff(want, got string) []string {
	if want == got {
		return nil
	}
	var out []string
	a, b := slices.Collect(strings.Lines(want)), slices.Collect(strings.Lines(got))
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "the table says  "+strings.TrimSpace(line))
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "but it is       "+strings.TrimSpace(line))
		}
	}
	if len(out) == 0 {
		out = []string{"the lines of the table are in another order"}
	}
	return out
}
