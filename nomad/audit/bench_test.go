package audit

import "testing"

// BenchmarkRecord measures the cost of one event for its request.
func BenchmarkRecord(b *testing.B) {
	l, _ := open(b, Config{Enforced: true, RotateBytes: 64 << 20, Keep: 1,
		Filters: []Filter{{Type: "HTTPEvent", Endpoints: []string{"/v1/metrics", "/v1/agent/*"}}}})
	auth := Auth{AccessorID: "a162f017-bcf7-900c-e22a-a2a8cbbcef53", Name: "a token", Kind: "client", Policies: []string{"dev", "ops"}}
	b.ReportAllocs()
	for b.Loop() {
		e := Event{Type: HTTP, Stage: Complete, Auth: auth, Response: &Response{Status: 200},
			Request: Request{Operation: "GET", Endpoint: "/v1/job/example/allocations", Namespace: "default", RemoteAddress: "127.0.0.1:33648",
				UserAgent: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"}}
		if err := l.Record(&e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOff measures the cost of an event without a log.
func BenchmarkOff(b *testing.B) {
	var l *Log
	for b.Loop() {
		if l.Enabled() {
			b.Fatal("on")
		}
	}
}
