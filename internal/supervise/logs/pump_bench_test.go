package logs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchBytes is what a task writes in one round of BenchmarkPump.
const benchBytes = 128 << 20

// ownSession gives a process a share of the CPU time of its own, as the supervisor and the tasks have: the kernel shares
// time between sessions. On a busy machine, a pipeline in one session is faster.
var ownSession = &syscall.SysProcAttr{Setsid: true}

// round is a measured transfer of benchBytes.
type round struct{ took, cpu time.Duration }

// BenchmarkPump compares the pump with cat: both move the output of a process from a pipe to files of one file system.
// Rounds alternate, so that other load affects both. The pump rotates files of 10 MiB, as by default. The medians are
// reported: of the rates, and of the pump's share of the rate and of the CPU time of cat.
func BenchmarkPump(b *testing.B) {
	for _, size := range []int{64 << 10, 4 << 10, 512} {
		b.Run(fmt.Sprintf("write=%d", size), func(b *testing.B) {
			got := map[string][]float64{}
			for b.Loop() {
				p, c := pumpRound(b, size), catRound(b, size)
				for unit, value := range map[string]float64{"pump-MB/s": benchBytes / p.took.Seconds() / 1e6,
					"cat-MB/s": benchBytes / c.took.Seconds() / 1e6,
					"%rate":    100 * float64(c.took) / float64(p.took), "%CPU": 100 * float64(p.cpu) / float64(c.cpu)} {
					got[unit] = append(got[unit], value)
				}
			}
			for unit, list := range got {
				slices.Sort(list)
				b.ReportMetric(list[len(list)/2], unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// writer starts a process that writes benchBytes to the pipe, and closes the pipe here.
func writer(b *testing.B, pipe *os.File, size int) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "dd", "if=/dev/zero", "status=none", fmt.Sprintf("bs=%d", size),
		fmt.Sprintf("count=%d", benchBytes/size))
	cmd.Stdout, cmd.SysProcAttr = pipe, ownSession
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	pipe.Close()
	return cmd
}

func pumpRound(b *testing.B, size int) round {
	p, task, logs := newStream(b, 10<<20)
	defer os.RemoveAll(logs)
	began := time.Now()
	go p.run()
	w := writer(b, task, size)
	before := ownTime(b) // without the start of the writer
	<-p.done
	took := time.Since(began)
	if err := w.Wait(); err != nil || p.err != nil {
		b.Fatal(err, p.err)
	}
	return round{took, ownTime(b) - before}
}

// ownTime returns the CPU time of this process.
func ownTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func catRound(b *testing.B, size int) round {
	dir := b.TempDir()
	defer os.RemoveAll(dir)
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	pipe, task, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cat := exec.CommandContext(context.Background(), "cat")
	cat.Stdin, cat.Stdout, cat.SysProcAttr = pipe, out, ownSession
	began := time.Now()
	if err := cat.Start(); err != nil {
		b.Fatal(err)
	}
	pipe.Close()
	w := writer(b, task, size)
	if err := cat.Wait(); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	if err := w.Wait(); err != nil {
		b.Fatal(err)
	}
	return round{took, cat.ProcessState.UserTime() + cat.ProcessState.SystemTime()}
}
