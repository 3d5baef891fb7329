package top

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/pty"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// agent answers the requests of top for a cluster of some nodes and allocations. The usage of
// number i is i+1 percent. It counts requests.
func agent(t *testing.T, nodes, allocs int) *atomic.Int64 {
	t.Helper()
	requests := &atomic.Int64{}
	id := func(i int) string { return fmt.Sprintf("%08d-0000", i) }
	reply := func(w http.ResponseWriter, v any) {
		requests.Add(1)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	number := func(text string) (i int) {
		if _, err := fmt.Sscanf(text, "%08d", &i); err != nil {
			t.Errorf("unexpected ID %q", text)
		}
		return i
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		var out []*api.NodeListStub
		for i := range nodes {
			out = append(out, &api.NodeListStub{ID: id(i), Name: fmt.Sprintf("node-%d", i), Status: "ready", SchedulingEligibility: "eligible",
				NodeResources: &api.NodeResources{Cpu: api.NodeCpuResources{CpuShares: 1000}}})
		}
		out[len(out)-1].Status = "down"
		reply(w, out)
	})
	mux.HandleFunc("/v1/allocations", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("namespace") != "*" || !strings.Contains(q.Get("filter"), "running") || q.Get("per_page") == "" {
			t.Errorf("query %q", r.URL.RawQuery)
		}
		var out []*api.AllocationListStub
		for i := range allocs {
			out = append(out, &api.AllocationListStub{ID: id(i), JobID: fmt.Sprintf("job-%d\x1b[2J", i), Namespace: "default", TaskGroup: "g",
				NodeID: id(i % nodes), ClientStatus: "running",
				AllocatedResources: &api.AllocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"t": {Cpu: api.AllocatedCpuResources{CpuShares: 100}, Memory: api.AllocatedMemoryResources{MemoryMB: int64(100 + i)}}}}})
		}
		reply(w, out)
	})
	mux.HandleFunc("/v1/client/stats", func(w http.ResponseWriter, r *http.Request) {
		i := number(r.URL.Query().Get("node_id"))
		reply(w, &api.HostStats{CPUTicksConsumed: float64(10 * (i + 1)),
			Memory: &api.HostMemoryStats{Total: 100 << 20, Used: uint64(nodes-i) << 20}})
	})
	mux.HandleFunc("/v1/client/allocation/{id}/stats", func(w http.ResponseWriter, r *http.Request) {
		i := number(r.PathValue("id"))
		if i == 1 {
			http.Error(w, "no route to the node", http.StatusInternalServerError)
			return
		}
		u := &api.ResourceUsage{CpuStats: &api.CpuStats{TotalTicks: float64(i + 1)}, MemoryStats: &api.MemoryStats{RSS: uint64(i+1) << 20}}
		reply(w, &api.AllocResourceUsage{ResourceUsage: u, Tasks: map[string]*api.TaskResourceUsage{"t": {ResourceUsage: u}}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Setenv("NOMAD_ADDR", srv.URL)
	t.Setenv("NOMAD_CONTEXTS", "/nowhere")
	t.Setenv("TZ", "UTC")
	return requests
}

func run(t *testing.T, in io.Reader, out io.Writer, args ...string) (code int, errs string) {
	t.Helper()
	var text bytes.Buffer
	code = Command().Adapt(in, out, &text).Run(args)
	return code, text.String()
}

func TestSnapshot(t *testing.T) {
	agent(t, 3, 4)
	var out bytes.Buffer
	if code, errs := run(t, nil, &out); code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{
		"  3 nodes, 4 allocations",
		"",
		"Node    ID        Status  Allocs  CPU MHz  CPU           Memory  Mem",
		"node-1  00000001  ready        1  20/1000   2%    2 MiB/100 MiB   2%",
		"node-0  00000000  ready        2  10/1000   1%    3 MiB/100 MiB   3%",
		"node-2  00000002  down         1        -    -                -    -",
		"",
		`Job             Group  Alloc     Namespace  Node    CPU MHz  CPU         Memory  Mem`,
		`job-3\x1b[2J  g      00000003  default    node-0    4/100   4%  4 MiB/103 MiB   4%`,
	}
	for i, w := range want {
		if i == 0 {
			if !strings.HasSuffix(lines[0], w) {
				t.Errorf("line 0 = %q, want %q", lines[0], w)
			}
			continue
		}
		if strings.Join(strings.Fields(lines[i]), " ") != strings.Join(strings.Fields(w), " ") {
			t.Errorf("line %d = %q, want %q", i, lines[i], w)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Error("the output has an escape sequence of a name")
	}
	out.Reset()
	if code, errs := run(t, nil, &out, "-sort=memory", "-json", "-job=job-1\x1b[2J"); code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var s Snapshot
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 3 || s.Nodes[0].Name != "node-0" || len(s.Allocations) != 1 || s.Allocations[0].Measured ||
		!strings.Contains(s.Allocations[0].Error, "no route to the node") {
		t.Errorf("snapshot = %s", &out)
	}
}

// The number of requests is limited on a large cluster, and what is left out is counted.
func TestRequestsAreBounded(t *testing.T) {
	requests := agent(t, 150, 1000)
	var out bytes.Buffer
	if code, errs := run(t, nil, &out, "-json", "-max=20"); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var s Snapshot
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if n := requests.Load(); n > 2+maxNodes+20 {
		t.Errorf("%d requests, at most %d", n, 2+maxNodes+20)
	}
	if len(s.Nodes) != maxNodes || s.NodesNotMeasured != 50 || len(s.Allocations) != 20 || s.AllocationsNotMeasured != 980 {
		t.Errorf("%d+%d nodes, %d+%d allocations", len(s.Nodes), s.NodesNotMeasured, len(s.Allocations), s.AllocationsNotMeasured)
	}
}

func TestFlags(t *testing.T) {
	agent(t, 1, 1)
	for args, want := range map[string]string{
		"-sort=name":      `invalid order "name" for -sort: use cpu or memory`,
		"-interval=10ms":  "invalid time 10ms for -interval: use at least 1s",
		"-max=0":          "invalid number 0 for -max: use 1 to 500",
		"-node=elsewhere": `No node(s) with name or prefix "elsewhere" found`,
	} {
		if code, errs := run(t, nil, io.Discard, args); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, want %q", args, code, errs, want)
		}
	}
}

// No line is longer than the terminal, whatever its width and the names.
func TestWidths(t *testing.T) {
	s := &Snapshot{Nodes: []*Node{{Name: strings.Repeat("字", 30), ID: "0123456789", Status: "ready, ineligible", Measured: true,
		Usage: Usage{1, 2, 3, 4}}},
		Allocations: []*Alloc{{JobID: strings.Repeat("long-", 30), ID: "0123456789", TaskGroup: "group", Namespace: "default", NodeName: "node"}}}
	for limit := 1; limit <= 200; limit++ {
		x := &screen{last: s, sort: byCPU}
		lines := x.lines(limit, 12)
		if len(lines) != 12 {
			t.Errorf("width %d: %d lines", limit, len(lines))
		}
		for _, line := range lines {
			line = strings.TrimSuffix(strings.TrimPrefix(line, keyed), plain)
			if got := displayWidth(line); got > limit {
				t.Errorf("width %d: line of %d: %q", limit, got, line)
			}
		}
	}
	narrow := strings.Join((&screen{last: s, sort: byCPU}).lines(32, 12), "\n")
	for _, want := range []string{"CPU", "50%", "Mem", "75%", "字"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("a narrow terminal does not show %q:\n%s", want, narrow)
		}
	}
	if strings.Contains(narrow, "Memory") {
		t.Errorf("a narrow terminal shows all columns:\n%s", narrow)
	}
}

// On a terminal the command shows a screen, reacts to keys, and restores the terminal.
func TestScreen(t *testing.T) {
	agent(t, 2, 3)
	master, slave, err := pty.Open()
	if err != nil {
		t.Skipf("needs a terminal: %v", err)
	}
	defer master.Close()
	defer slave.Close()
	if err := pty.Resize(master, 20, 60); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown strings.Builder
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			mu.Lock()
			shown.Write(buf[:n])
			mu.Unlock()
		}
	}()
	sees := func(want string) {
		t.Helper()
		testpace.Within(t, time.Minute, "the screen has "+want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(shown.String(), want)
		})
	}
	ended := make(chan int, 1)
	go func() {
		code, _ := run(t, slave, slave, "-interval=1s")
		ended <- code
	}()
	sees(enter)
	sees("node-0")
	sees("(by cpu)")
	press := func(keys string) {
		t.Helper()
		if _, err := io.WriteString(master, keys); err != nil {
			t.Fatal(err)
		}
	}
	press("m")
	sees("(by memory)")
	press("q")
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit %d", code)
		}
	case <-time.After(time.Minute):
		t.Fatal("q does not end the command")
	}
	sees(leave)
}
