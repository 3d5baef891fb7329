package logsink_test

import (
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/client/logsink"
)

// answers is a collector that returns one status after another.
type answers struct {
	mu       sync.Mutex
	status   int
	rejected int64
	requests []*collector.ExportLogsServiceRequest
	headers  []http.Header
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := io.ReadAll(z)
	req := &collector.ExportLogsServiceRequest{}
	if err != nil || proto.Unmarshal(raw, req) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	a.requests, a.headers = append(a.requests, req), append(a.headers, r.Header.Clone())
	if a.status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(a.status)
	body, err := proto.Marshal(&collector.ExportLogsServiceResponse{PartialSuccess: &collector.ExportLogsPartialSuccess{RejectedLogRecords: a.rejected}})
	if err == nil {
		w.Write(body)
	}
}

func TestOTLP(t *testing.T) {
	a := &answers{status: http.StatusOK}
	server := httptest.NewTLSServer(a)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	sink := logsink.NewOTLP(logsink.OTLPConfig{Endpoint: server.URL + "/v1/logs", Headers: map[string]string{"X-Key": "k"},
		TLS: &tls.Config{RootCAs: roots}})
	src := source(t)
	batch := []logsink.Record{{Subject: &src.Subject, Line: []byte("hello")}, {Subject: &src.Subject, Stderr: true, Line: []byte("bad \xff")}}
	if rejected, err := sink.Send(t.Context(), batch); rejected != 0 || err != nil {
		t.Fatalf("Send() = %d, %v", rejected, err)
	}
	if a.headers[0].Get("X-Key") != "k" || a.headers[0].Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("headers %v", a.headers[0])
	}
	logs := a.requests[0].ResourceLogs[0]
	attributes := map[string]string{}
	for _, kv := range logs.Resource.Attributes {
		attributes[kv.Key] = kv.Value.GetStringValue()
	}
	for key, want := range map[string]string{"service.name": "t", "nomad.job.id": "web", "nomad.alloc.id": "alloc-id",
		"nomad.node.id": "node-id"} {
		if attributes[key] != want {
			t.Errorf("%s = %q, want %q", key, attributes[key], want)
		}
	}
	records := logs.ScopeLogs[0].LogRecords
	if len(records) != 2 || records[0].Body.GetStringValue() != "hello" || records[1].Body.GetStringValue() != "bad \uFFFD" {
		t.Errorf("records %v", records)
	}
	if records[0].SeverityNumber >= records[1].SeverityNumber {
		t.Error("standard error is not more severe than standard output")
	}
}

// What a collector answers decides between the next batch, a retry, and dropped lines.
func TestOTLPAnswers(t *testing.T) {
	a := &answers{}
	server := httptest.NewServer(a)
	defer server.Close()
	src := source(t)
	batch := []logsink.Record{{Subject: &src.Subject, Line: []byte("a")}, {Subject: &src.Subject, Line: []byte("b")}}
	sink := logsink.NewOTLP(logsink.OTLPConfig{Endpoint: server.URL, Headers: map[string]string{"Authorization": "secret-key"}})
	for _, tc := range []struct {
		status   int
		partial  int64
		rejected int
		retry    bool
	}{
		{200, 0, 0, false}, {200, 1, 1, false}, {200, 99, 2, false}, {400, 0, 2, false}, {413, 0, 2, false},
		{429, 0, 0, true}, {503, 0, 0, true}, {401, 0, 0, true}, {302, 0, 0, true},
	} {
		a.mu.Lock()
		a.status, a.rejected = tc.status, tc.partial
		before := len(a.requests)
		a.mu.Unlock()
		rejected, err := sink.Send(t.Context(), batch)
		if rejected != tc.rejected || (err != nil) != tc.retry {
			t.Errorf("status %d, %d rejected: Send() = %d, %v", tc.status, tc.partial, rejected, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the header: %v", err)
		}
		if n := len(a.requests) - before; n != 1 {
			t.Errorf("status %d: %d requests, want 1 without redirects", tc.status, n)
		}
	}
	server.Close()
	if _, err := sink.Send(t.Context(), batch); err == nil {
		t.Error("Send() to a dead collector succeeds")
	}
}
