package network_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkConnect measures the set-up of a network with one port, over that of a namespace without a network. It
// reports the CPU time too, which other load on the machine changes little. A bridge has only IPv4 by default.
func BenchmarkConnect(b *testing.B) {
	for _, c := range []struct {
		name           string
		ipv6, isolated bool
	}{{name: "default"}, {name: "isolated", isolated: true}, {name: "ipv6", ipv6: true}} {
		b.Run(c.name, func(b *testing.B) {
			n := newNode(b)
			if !c.ipv6 {
				n.cfg.Bridge.Subnet6 = netip.Prefix{}
				n.restart()
			}
			var times, cpu []time.Duration
			for i := range b.N + 1 {
				r := request(fmt.Sprintf("alloc-%d", i), n.space(fmt.Sprintf("alloc-%d", i)))
				r.Network.Isolate = c.isolated
				used, start := cpuTime(b), time.Now()
				n.connect(r)
				if i > 0 { // the first one creates the bridge and the chains
					times, cpu = append(times, time.Since(start)), append(cpu, cpuTime(b)-used)
				}
				if err := n.set.Disconnect(context.Background(), r.Alloc.ID); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(middle(times).Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(middle(cpu).Microseconds())/1000, "CPU-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func middle(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// cpuTime returns the CPU time of this process and of its ended children.
func cpuTime(b *testing.B) time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
