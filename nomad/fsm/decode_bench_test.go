package fsm_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// BenchmarkDecode decodes the entry of a small job's registration.
func BenchmarkDecode(b *testing.B) {
	body := registration(b, 10).Data[1:]
	b.ReportAllocs()
	used := -cpuTime(b)
	for b.Loop() {
		if err := codec.Decode(body, new(message.JobRegisterRequest)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((used+cpuTime(b)).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
