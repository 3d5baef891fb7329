package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/host"
	"github.com/open-nomad/open-nomad/plugins/serve"
)

func init() {
	behaviours["full"] = func() {
		d := &full{Driver: mock.New("full", slog.New(slog.DiscardHandler)), events: make(chan *drivers.TaskEvent, 9)}
		serve.Serve(serve.Config{Driver: d, Version: "1.0.0"})
	}
}

// full is the mock driver with everything that a driver may have. Its program is in another process.
type full struct {
	*mock.Driver
	events chan *drivers.TaskEvent
}

func (f *full) Capabilities() drivers.Capabilities {
	return drivers.Capabilities{SendSignals: true, Exec: true, FSIsolation: drivers.FSIsolationImage, Networks: []string{"group", "host"},
		MustCreateNetwork: true, Mounts: true, DNS: true, DynamicWorkloadUsers: true}
}

// StartTask writes what it got of the configuration to the output of the task.
func (f *full) StartTask(ctx context.Context, cfg *drivers.TaskConfig) (*drivers.TaskHandle, error) {
	h, err := f.Driver.StartTask(ctx, cfg)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(cfg.Stdout, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	fmt.Fprintln(out, cfg.Mounts, cfg.Devices, cfg.DNS.Servers, cfg.NetNS, cfg.NetLabels, cfg.Env["K"], cfg.Limits.MHzPerCore > 0)
	h.Network = &drivers.TaskNetwork{IP: "192.0.2.9", PortMap: map[string]int{"http": 80}, AutoAdvertise: true}
	f.events <- &drivers.TaskEvent{TaskID: cfg.ID, At: time.Unix(1700000000, 0), Message: "pulled", Details: map[string]string{"k": "v"}}
	f.events <- &drivers.TaskEvent{TaskID: "somebody else's", Message: "wrong"}
	return h, nil
}

func (f *full) Report(ctx context.Context, tell func(*drivers.TaskEvent)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-f.events:
			tell(e)
		}
	}
}

// ExecTask copies the input to the output, and reports the first size of a terminal.
func (f *full) ExecTask(ctx context.Context, id string, o *drivers.ExecOptions) (*drivers.ExitResult, error) {
	if _, err := f.InspectTask(id); err != nil {
		return nil, err
	}
	if o.Command[0] == "fail" {
		return nil, errors.New("no such command")
	}
	if o.Tty {
		size := <-o.Resize
		fmt.Fprintf(o.Stdout, "%dx%d ", size.Height, size.Width)
	}
	if o.Command[0] == "wait" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	io.Copy(o.Stdout, o.Stdin)
	fmt.Fprint(o.Stderr, o.Env["K"], strings.Repeat("x", 5000))
	return &drivers.ExitResult{ExitCode: 9}, nil
}

func (f *full) CreateNetwork(_ context.Context, alloc, hostname string) (*drivers.GroupNetwork, error) {
	if alloc == "bad" {
		return &drivers.GroupNetwork{Labels: map[string]string{"no": "path"}}, nil
	}
	return &drivers.GroupNetwork{Path: "/run/netns/" + alloc, Labels: map[string]string{"by": "full"}}, nil
}

func (f *full) DestroyNetwork(_ context.Context, alloc string, n *drivers.GroupNetwork) error {
	if n != nil && n.Labels["by"] != "full" {
		return fmt.Errorf("network of %s: %+v", alloc, n)
	}
	return nil
}

// TestFull uses what the mock driver does not have, over the wire.
func TestFull(t *testing.T) {
	r := newRig(t, "full")
	d := find(t, r.open(), "full").(*host.Driver)
	healthy(t, d)
	if c := d.Capabilities(); !c.Exec || c.FSIsolation != drivers.FSIsolationImage || !c.MustCreateNetwork || !c.Mounts || !c.DNS ||
		!c.Devices || !c.DynamicWorkloadUsers {
		t.Errorf("capabilities = %+v", c)
	}
	n, err := d.CreateNetwork(t.Context(), "a", "")
	if err != nil || n.Path != "/run/netns/a" || n.Labels["by"] != "full" {
		t.Errorf("CreateNetwork() = %+v, %v", n, err)
	}
	if _, err := d.CreateNetwork(t.Context(), "bad", ""); err == nil {
		t.Error("a network without a path was accepted")
	}
	if err := errors.Join(d.DestroyNetwork(t.Context(), "a", n), d.DestroyNetwork(t.Context(), "a", nil)); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var events []*drivers.TaskEvent
	reported := make(chan error, 1)
	go func() {
		reported <- d.Report(ctx, func(e *drivers.TaskEvent) { mu.Lock(); defer mu.Unlock(); events = append(events, e) })
	}()
	cfg := r.task(d, map[string]any{"run_for": "1h"})
	cfg.Mounts, cfg.Devices = []drivers.Mount{{TaskPath: "/d", HostPath: "/srv", ReadOnly: true}},
		[]drivers.Device{{TaskPath: "/dev/x", HostPath: "/dev/y", Permissions: "r"}}
	cfg.DNS, cfg.NetNS, cfg.NetLabels = &drivers.DNS{Servers: []string{"192.0.2.53"}}, n.Path, n.Labels
	cfg.Env, cfg.Limits = map[string]string{"K": "v"}, drivers.LinuxResources{CPUShares: 100, MHzPerCore: 2000}
	handle, err := d.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := (&drivers.TaskNetwork{IP: "192.0.2.9", PortMap: map[string]int{"http": 80},
		AutoAdvertise: true}); !reflect.DeepEqual(handle.Network, want) {
		t.Errorf("network = %+v, want %+v", handle.Network, want)
	}
	want := "[{/d /srv true   false}] [{/dev/x /dev/y r}] [192.0.2.53] /run/netns/a map[by:full] v true\n"
	testpace.Until(t, "the output of the task in its log", func() bool {
		text, _ := os.ReadFile(filepath.Join(cfg.LogDir, "t.stdout.0"))
		return string(text) == want
	})
	testpace.Until(t, "the event of the task", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) == 1 && events[0].TaskID == cfg.ID && events[0].Message == "pulled" && events[0].Details["k"] == "v" &&
			events[0].At.Unix() == 1700000000
	})
	sessions(t, d, cfg.ID)
	fifo := filepath.Dir(stdoutOf(t, r, cfg.ID))
	if err := d.DestroyTask(cfg.ID, true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fifo); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFOs remain in %s: %v", fifo, err)
	}
	cancel()
	<-reported
}

// stdoutOf returns the FIFO of a task.
func stdoutOf(t *testing.T, r *rig, id string) string {
	t.Helper()
	list, err := r.super.Task(t.Context(), id)
	if err != nil || len(list.Pipes) != 2 {
		t.Fatalf("Task() = %+v, %v", list, err)
	}
	return list.Pipes[0]
}

// sessions runs commands in a task.
func sessions(t *testing.T, d *host.Driver, id string) {
	t.Helper()
	input := strings.Repeat("0123456789", 10_000)
	var out, errs bytes.Buffer
	exit, err := d.ExecTask(t.Context(), id,
		&drivers.ExecOptions{Command: []string{"cat"}, Stdin: strings.NewReader(input), Stdout: &out, Stderr: &errs})
	if err != nil || exit.ExitCode != 9 || out.String() != input || errs.String() != "v"+strings.Repeat("x", 5000) {
		t.Errorf("session = %+v, %v, %d bytes, %d bytes of errors", exit, err, out.Len(), errs.Len())
	}
	out.Reset()
	sizes := make(chan drivers.TerminalSize, 1)
	sizes <- drivers.TerminalSize{Height: 24, Width: 80}
	exit, err = d.ExecTask(t.Context(), id,
		&drivers.ExecOptions{Command: []string{"cat"}, Tty: true, Stdin: strings.NewReader("x"), Stdout: &out, Resize: sizes})
	if err != nil || exit.ExitCode != 9 || out.String() != "24x80 x" {
		t.Errorf("session with a terminal = %+v, %v, %q", exit, err, out.String())
	}
	if _, err := d.ExecTask(t.Context(), id,
		&drivers.ExecOptions{Command: []string{"fail"}, Stdin: strings.NewReader(""), Stdout: &out,
			Stderr: &errs}); err == nil || !strings.Contains(err.Error(), "no such command") {
		t.Errorf("a session that fails = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	stdin, keep := io.Pipe()
	defer keep.Close()
	if _, err := d.ExecTask(ctx, id,
		&drivers.ExecOptions{Command: []string{"wait"}, Stdin: stdin, Stdout: &out, Stderr: &errs}); !errors.Is(err, context.Canceled) {
		t.Errorf("a session that is ended = %v", err)
	}
	if _, err := d.ExecTask(t.Context(), "absent",
		&drivers.ExecOptions{Command: []string{"cat"}, Stdin: strings.NewReader("")}); !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Errorf("a session in no task = %v", err)
	}
}

// TestHugeAnswer measures what an answer of 100 MiB costs the agent.
func TestHugeAnswer(t *testing.T) {
	r := newRig(t, "huge")
	r.cfg.Patience = 30 * time.Second
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h := r.open()
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 16 {
		t.Errorf("the agent allocated %d MiB", got)
	}
	last := prints(t, find(t, h, "huge"))
	testpace.Until(t, "the reason", func() bool { return strings.Contains(last().Description, "larger than max") })
}
