package fsm_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// BenchmarkDecode decodes the entry that registers a small job, as a command and by
// the codec.
func BenchmarkDecode(b *testing.B) {
	body := registration(b, 10).Data[1:]
	for name, decode := range map[string]func([]byte, any) error{"command": nomad.DecodeSparse, "codec": nomad.Decode} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			used := -cpuTime(b)
			for b.Loop() {
				if err := decode(body, new(nomad.JobRegisterRequest)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((used+cpuTime(b)).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
