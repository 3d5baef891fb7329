package logsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// Limits of requests to a collector.
const (
	otlpTimeout   = 10 * time.Second
	otlpMaxAnswer = 64 << 10
)

// OTLPConfig configures an OTLP sink.
type OTLPConfig struct {
	Endpoint string            // the full URL, such as https://collector:4318/v1/logs
	Headers  map[string]string // sent with each request; may hold secrets
	TLS      *tls.Config       // nil for the system's certificates
}

// OTLP sends lines to a collector with OTLP over HTTP: protobuf, compressed with gzip.
type OTLP struct {
	cfg    OTLPConfig
	client *http.Client
}

// NewOTLP returns a sink for a collector.
func NewOTLP(cfg OTLPConfig) *OTLP {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg.TLS
	transport.MaxConnsPerHost = 8
	return &OTLP{cfg: cfg, client: &http.Client{
		Transport: transport, Timeout: otlpTimeout,
		// The headers may hold a secret for this collector only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send implements Sink.
func (o *OTLP) Send(ctx context.Context, batch []Record) (rejected int, err error) {
	body, err := encode(batch)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range o.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := o.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("send to OTLP collector: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, otlpMaxAnswer))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read answer of OTLP collector: %w", err)
	case resp.StatusCode == http.StatusOK:
		return rejectedOf(answer, len(batch)), nil
	case retryable(resp.StatusCode):
		return 0, fmt.Errorf("send to OTLP collector: status %d", resp.StatusCode)
	}
	return len(batch), nil // the collector will never accept this batch
}

// retryable reports whether a later attempt may succeed, by the rules of OTLP. Wrong credentials and
// a wrong path are errors of the configuration, which an operator can repair: the files keep the lines.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return status >= 300 && status < 400
}

// rejectedOf returns the number of lines that the collector rejected.
func rejectedOf(answer []byte, n int) int {
	var resp collector.ExportLogsServiceResponse
	if err := proto.Unmarshal(answer, &resp); err != nil {
		return 0 // accepted, with an answer in another format
	}
	return int(min(max(resp.GetPartialSuccess().GetRejectedLogRecords(), 0), int64(n)))
}

// encode returns the compressed request of a batch. All its records are of one log.
func encode(batch []Record) ([]byte, error) {
	if len(batch) == 0 {
		return nil, errors.New("empty batch")
	}
	req := &collector.ExportLogsServiceRequest{ResourceLogs: []*logspb.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: attributes(batch[0].Subject)},
		ScopeLogs: []*logspb.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "open-nomad"}, LogRecords: records(batch)}},
	}}}
	raw, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode OTLP request: %w", err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(raw)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress OTLP request: %w", err)
	}
	return out.Bytes(), nil
}

func records(batch []Record) []*logspb.LogRecord {
	out := make([]*logspb.LogRecord, len(batch))
	for i, r := range batch {
		severity, stream := logspb.SeverityNumber_SEVERITY_NUMBER_INFO, "stdout"
		if r.Stderr {
			severity, stream = logspb.SeverityNumber_SEVERITY_NUMBER_ERROR, "stderr"
		}
		out[i] = &logspb.LogRecord{
			ObservedTimeUnixNano: uint64(r.Time.UnixNano()), SeverityNumber: severity,
			// A string of protobuf must be valid UTF-8.
			Body:       text(string(bytes.ToValidUTF8(r.Line, []byte("\uFFFD")))),
			Attributes: []*common.KeyValue{{Key: "log.iostream", Value: text(stream)}},
		}
	}
	return out
}

func attributes(s *Subject) []*common.KeyValue {
	var out []*common.KeyValue
	for _, a := range []struct{ key, value string }{
		{"service.name", s.Task}, {"service.namespace", s.Job}, {"service.instance.id", s.Alloc},
		{"nomad.namespace", s.Namespace}, {"nomad.job.id", s.Job}, {"nomad.group", s.Group}, {"nomad.alloc.id", s.Alloc},
		{"nomad.alloc.name", s.AllocName}, {"nomad.task", s.Task}, {"nomad.node.id", s.Node},
	} {
		out = append(out, &common.KeyValue{Key: a.key, Value: text(a.value)})
	}
	return out
}

func text(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: s}}
}
