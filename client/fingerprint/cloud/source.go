package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Limits of replies and requests.
const (
	maxBody    = 64 << 10
	maxHeaders = 16 << 10
	inParallel = 4
)

// errNoValue is returned for a value that the service does not have.
var errNoValue = errors.New("the metadata service has no such value")

// source reads values of one metadata service.
type source struct {
	base   *url.URL
	client *http.Client
	header http.Header // of each request
	// replyHeader and replyValue identify the replies of the service; "" accepts all.
	replyHeader, replyValue string
}

func newSource(base *url.URL) *source {
	dialer := &net.Dialer{Timeout: ProbeLimit}
	return &source{base: base, header: http.Header{}, client: &http.Client{
		Transport: &http.Transport{ // without Proxy: the environment has no effect
			DialContext: dialer.DialContext, MaxConnsPerHost: inParallel, MaxIdleConnsPerHost: inParallel,
			MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// close closes the connections.
func (s *source) close() { s.client.CloseIdleConnections() }

// get returns the value at a path below the base address.
func (s *source) get(ctx context.Context, path string) (string, error) {
	return s.request(ctx, http.MethodGet, path)
}

func (s *source) request(ctx context.Context, method, path string) (string, error) {
	at, err := s.base.Parse(path)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return "", err
	}
	req.Header = s.header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch {
	case s.replyHeader != "" && resp.Header.Get(s.replyHeader) != s.replyValue:
		return "", fmt.Errorf("get %s: the reply lacks the header %s: %s", at, s.replyHeader, s.replyValue)
	case resp.StatusCode == http.StatusNotFound:
		return "", fmt.Errorf("get %s: %w", at, errNoValue)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("get %s: unexpected status %d", at, resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return "", fmt.Errorf("get %s: %w", at, err)
	}
	if len(b) > maxBody {
		return "", fmt.Errorf("get %s: the reply exceeds %d bytes", at, maxBody)
	}
	return string(b), nil
}

// document reads a JSON value.
func (s *source) document(ctx context.Context, path string, into any) error {
	text, err := s.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}

// value reads and parses one value.
func (s *source) value(ctx context.Context, f field) (string, error) {
	text, err := s.get(ctx, f.path)
	if err != nil {
		return "", err
	}
	return f.parsed(text)
}

// values reads the fields in parallel and returns them as attributes. The first field must have a value. Any other
// that the service lacks is absent.
func (s *source) values(ctx context.Context, fields []field) (map[string]string, error) {
	var mu sync.Mutex
	attributes := map[string]string{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inParallel)
	for _, f := range fields {
		group.Go(func() error {
			v, err := s.value(ctx, f)
			if err != nil && !errors.Is(err, errNoValue) {
				return err
			}
			if v != "" {
				mu.Lock()
				defer mu.Unlock()
				attributes[f.attribute] = v
			}
			return nil
		})
	}
	err := group.Wait()
	if err == nil && attributes[fields[0].attribute] == "" {
		err = fmt.Errorf("%s: %w", fields[0].attribute, errNoValue)
	}
	return attributes, err
}
