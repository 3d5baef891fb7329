package check_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// targetEnv makes this program the target of the benchmark.
const targetEnv = "CHECK_BENCH_TARGET"

func TestMain(m *testing.M) {
	if os.Getenv(targetEnv) != "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() //nolint:errcheck // it ends with the benchmark
		panic(http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}
	os.Exit(m.Run())
}

// startTarget starts an HTTP server in a process of its own, so that its CPU time is not counted.
func startTarget(b *testing.B) service.Address {
	b.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), targetEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() }) //nolint:errcheck // the target ends by itself
	a := service.Address{Host: "127.0.0.1"}
	if _, err := fmt.Fscan(out, &a.Port); err != nil {
		b.Fatal(err)
	}
	return a
}

func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Benchmark2000Checks runs 2,000 HTTP checks of 200 allocations at an interval of 10 s, for 30 s after the first runs.
// It reports the CPU time in percent of one core.
func Benchmark2000Checks(b *testing.B) {
	addr := startTarget(b)
	s := check.New(check.Config{Store: &store{kept: map[string]message.CheckStatus{}}, Version: "2.0.6", Log: slog.New(slog.DiscardHandler)},
		nil)
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		for i := range 200 {
			id := fmt.Sprint(i)
			var targets []*check.Target
			for j := range 10 {
				targets = append(targets, &check.Target{ID: message.CheckID(fmt.Sprint(j)), Type: nomad.ServiceCheckHTTP, Address: addr,
					Interval: 10 * time.Second, Timeout: 5 * time.Second, HTTP: check.HTTP{Protocol: "http", Method: "GET", Path: "/"}})
			}
			s.Observe(id, targets)
			go func() { s.Watch(ctx, id, ""); done <- struct{}{} }()
		}
		<-time.After(10 * time.Second)
		before, start := cpu(), time.Now()
		<-time.After(30 * time.Second)
		b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(start)), "%core")
		for i := range 200 {
			for _, r := range s.Results(fmt.Sprint(i)) {
				if r.Status != message.CheckSuccess || !strings.HasPrefix(r.Output, "nomad: http ok") {
					b.Fatalf("result = %+v", r)
				}
			}
		}
		cancel()
		for range 200 {
			<-done
		}
	}
}
