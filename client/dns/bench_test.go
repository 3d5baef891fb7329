package dns_test

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"testing"

	miekg "github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/dns"
)

// BenchmarkUDP asks for services of a catalogue with 50,000 instances, over sockets.
func BenchmarkUDP(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	all := services{}
	for i := range 50_000 {
		key := fmt.Sprint("default/s", i%4096)
		all[key] = append(all[key], instance(fmt.Sprint("node", i%500), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), 20000+i%1000, "", "v1", "blue"))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := start(b, func(c *dns.Config) {
		c.Catalogue = all
		c.Log = slog.New(slog.DiscardHandler)
	})
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "catalogue-MB")
	for _, kind := range []uint16{miekg.TypeA, miekg.TypeSRV} {
		b.Run(miekg.TypeToString[kind], func(b *testing.B) {
			b.SetParallelism(8)
			began := cpu(b)
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("udp", n.host)
				if err != nil {
					b.Error(err)
					return
				}
				defer c.Close()
				var buf [4096]byte
				for i := 0; pb.Next(); i++ {
					raw, err := new(miekg.Msg).SetQuestion(fmt.Sprintf("s%d.service.nomad.", i%4096), kind).Pack()
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := c.Write(raw); err != nil {
						b.Error(err)
						return
					}
					if _, err := c.Read(buf[:]); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "queries/s")
			// Client and server together: on a busy machine this is the figure to compare.
			b.ReportMetric(float64(cpu(b)-began)/float64(b.N), "cpu-ns/query")
			runtime.KeepAlive(all)
		})
	}
}

// cpu returns the CPU time of this process in ns.
func cpu(b *testing.B) int64 {
	b.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return use.Utime.Nano() + use.Stime.Nano()
}
