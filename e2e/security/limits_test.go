package security_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// A task that exceeds its memory is killed, with an event; another task of the group continues.
func TestMemoryIsBounded(t *testing.T) {
	a, _ := harness.SandboxAgent(t)
	quiet := harness.Register(t, a, harness.OneTask("quiet", "/bin/sleep", "600"), "running")
	job := harness.OneTask("greedy", "/bin/sh", "-c", `x=$(head -c 300000000 /dev/zero | tr '\0' x); echo ${#x}`)
	cpu := 2000
	job.TaskGroups[0].Tasks[0].Resources.CPU = &cpu
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		t.Fatal(err)
	}
	var greedy *api.AllocationListStub
	harness.Within(t, 30*time.Second, "the greedy task has failed", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("greedy", true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		greedy = allocs[0]
		return greedy.ClientStatus == api.AllocClientStatusFailed
	})
	reported := false
	for _, ev := range greedy.TaskStates["t"].Events {
		reported = reported || ev.Type == api.TaskTerminated && ev.Details["oom_killed"] == "true"
	}
	if !reported {
		t.Errorf("no event of an OOM kill: %+v", greedy.TaskStates["t"].Events)
	}
	if got := harness.OnlyAlloc(t, a, "quiet"); got.ID != quiet.ID || got.ClientStatus != api.AllocClientStatusRunning {
		t.Errorf("the quiet task is %s", got.ClientStatus)
	}
}

// A task uses no more CPU time than it requested.
func TestProcessorIsBounded(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	h := harness.Register(t, a, harness.OneTask("busy", "/bin/sh", "-c", "while :; do :; done"), "running")
	pid := pidIn(t, filepath.Join(data, "alloc", h.ID))
	begin, since := processorTime(t, pid), time.Now()
	harness.Within(t, 10*time.Second, "two seconds have passed", func() bool { return time.Since(since) > 2*time.Second })
	used, passed := processorTime(t, pid)-begin, time.Since(since)
	// The limit of 100 MHz is at most a twentieth of a core. Half a core means that it is not enforced.
	if used > passed/2 {
		t.Errorf("the task used %s of processor in %s", used, passed)
	}
}

// processorTime returns the CPU time of a process, in the kernel's units of 10 ms.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat := harness.Content(t, fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Users and paths that a job must not name are rejected, or the task fails; nothing is written
// outside of its directory.
func TestForbiddenUsersAndPaths(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	up := strings.Repeat("../", 12) + strings.TrimPrefix(a.Dir, "/") + "/escaped"
	set := func(f func(*api.Task)) func(*api.Job) {
		return func(j *api.Job) { f(j.TaskGroups[0].Tasks[0]) }
	}
	file := func(path string) func(*api.Job) {
		return set(func(t *api.Task) {
			t.Identities = []*api.WorkloadIdentity{{Name: "x", Audience: []string{"x"}, File: true, Filepath: path}}
		})
	}
	for name, edit := range map[string]func(*api.Job){
		"root":             set(func(t *api.Task) { t.User = "root" }),
		"uid 0":            set(func(t *api.Task) { t.User = "0" }),
		"uid +0":           set(func(t *api.Task) { t.User = "+0" }),
		"uid 00":           set(func(t *api.Task) { t.User = "00" }),
		"uid 0:0":          set(func(t *api.Task) { t.User = "0:0" }),
		"uid wraps around": set(func(t *api.Task) { t.User = "4294967296" }),
		"uid -1":           set(func(t *api.Task) { t.User = "4294967295" }),
		"a lent uid":       set(func(t *api.Task) { t.User = "80000" }),
		"a lent user":      set(func(t *api.Task) { t.User = "nomad-80000" }),
		"user by variable": set(func(t *api.Task) { t.User = "${meta.who}" }),
		"identity up":      file("secrets/" + up), "identity up from local": file("local/../" + up),
		"identity at the root":   file(a.Dir + "/escaped"),
		"identity by variable":   file("${meta.up}"),
		"identity in variable":   file("local/${NOMAD_META_up}"),
		"payload up":             set(func(t *api.Task) { t.DispatchPayload = &api.DispatchPayloadConfig{File: up} }),
		"group named up":         func(j *api.Job) { up := "../up"; j.TaskGroups[0].Name = &up },
		"task named up":          set(func(t *api.Task) { t.Name = "../up" }),
		"task named .":           set(func(t *api.Task) { t.Name = "." }),
		"task named ..":          set(func(t *api.Task) { t.Name = ".." }),
		"task named alloc":       set(func(t *api.Task) { t.Name = "alloc" }),
		"task named by variable": set(func(t *api.Task) { t.Name = "${meta.up}" }),
		"task with a NUL":        set(func(t *api.Task) { t.Name = "t\x00x" }),
		"unveil by variable":     set(func(t *api.Task) { t.Config["unveil"] = []string{"rwxc:../../../.."} }),
		"work in":                set(func(t *api.Task) { t.Config["work_dir"] = "/etc" }),
		"huge oom score":         set(func(t *api.Task) { t.Config["oom_score_adj"] = 1 << 40 }),
		"negative memory":        set(func(t *api.Task) { m := -5; t.Resources.MemoryMB = &m }),
		"huge memory":            set(func(t *api.Task) { m := 1 << 60; t.Resources.MemoryMB = &m }),
		"memory_max wraps":       set(func(t *api.Task) { m := 1<<63 - 1; t.Resources.MemoryMaxMB = &m }),
		"negative cpu":           set(func(t *api.Task) { c := -5; t.Resources.CPU = &c }),
		"huge count":             func(j *api.Job) { n := 1 << 40; j.TaskGroups[0].Count = &n },
		"odd signal":             set(func(t *api.Task) { t.KillSignal = "SIGKILL; rm -rf /" }),
	} {
		job := harness.OneTask("x", "/bin/sh", "-c", "id -u; touch escaped-here; sleep 1")
		*job.ID = "named-" + strings.ReplaceAll(name, " ", "-")
		job.Meta = map[string]string{"who": "root", "up": up}
		job.TaskGroups[0].Meta = job.Meta
		edit(job)
		if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
			if strings.Contains(err.Error(), "code: 5") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !strings.HasSuffix(name, "by variable") || name == "user by variable" { // otherwise the name is used literally
			neverRuns(t, a, name, *job.ID)
		}
	}
	err := filepath.WalkDir(a.Dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), "escaped") && !strings.HasPrefix(path, filepath.Join(data, "alloc")+"/") {
			t.Errorf("%s was written", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	noPanic(t, a)
}

// neverRuns waits until an accepted job is blocked or has failed.
func neverRuns(t *testing.T, a *cluster.Agent, name, job string) {
	t.Helper()
	harness.Within(t, 20*time.Second, name+" is rejected by the node", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations(job, true, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, al := range allocs {
			out := harness.Log(a, al)
			if al.ClientStatus == api.AllocClientStatusComplete || strings.HasPrefix(out, "0\n") {
				t.Errorf("%s: the task ran: %q", name, out)
				return true
			}
			if al.ClientStatus == api.AllocClientStatusFailed {
				return true
			}
		}
		evals, _, err := a.Client.Jobs().Evaluations(job, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evals {
			if e.Status == "blocked" {
				return true
			}
		}
		return false
	})
}

// The RPC port closes connections that send raft, TLS or invalid data. Silent connections do not
// delay others, and claimed lengths do not allocate memory.
func TestRPCPortUnderAttack(t *testing.T) {
	a := harness.DevAgent(t)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(a.RPC))
	before := residentKB(t, a.Pid())
	claim := "\x01\xdb\x03\xff\xff\xff"
	for name, first := range map[string]string{
		"raft": "\x02\x00\x80", "TLS": "\x04\x16\x03\x01\x02\x00", "TLS at once": "\x16\x03\x01\x02\x00\x01",
		"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "unknown": "\xff\xff",
		"broken header": "\x01\xc1\xc1", "broken session": "\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "broken stream": "\x05\xc1",
		"nil header": "\x01\xc0\xc1",
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(harness.Patience))
		if _, err := io.WriteString(c, first); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if rest, err := io.ReadAll(bufio.NewReader(c)); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: the connection stays open after %q", name, rest)
		}
		c.Close()
	}
	var open []net.Conn
	for range 150 { // the limit is 100 per address
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, claim) //nolint:errcheck // those over the limit are closed already
		open = append(open, c)
	}
	harness.Within(t, harness.Patience, "50 of 150 connections of one address are closed", func() bool {
		open = slices.DeleteFunc(open, func(c net.Conn) bool {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return err != nil && !os.IsTimeout(err)
		})
		return len(open) <= 100
	})
	if grown := residentKB(t, a.Pid()) - before; grown > 100<<10 {
		t.Errorf("the agent grew by %d KB", grown)
	}
	if code, _, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/status/leader", ""); code != http.StatusOK {
		t.Errorf("the agent answers %d", code)
	}
	noPanic(t, a)
}

func residentKB(t *testing.T, pid int) int {
	t.Helper()
	_, rest, _ := strings.Cut(harness.Content(t, fmt.Sprintf("/proc/%d/status", pid)), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
