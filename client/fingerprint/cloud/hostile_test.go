package cloud_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// refused fails unless the server gives no facts and no error.
func refused(t *testing.T, name, root string, h http.Handler) {
	t.Helper()
	p := start(t, name, root, h)
	p.RetryAttempts, p.RetryInterval = 1, time.Millisecond
	if found, err := detect(t, p); found != nil || err != nil {
		t.Errorf("%s: facts %v, error %v, want none", name, found, err)
	}
}

// A server that is not a metadata service gives no facts, whatever it replies.
func TestOtherServer(t *testing.T) {
	replies := map[string]string{
		"empty": "", "text": "ok", "number": "1", "object": "{}", "array": "[]", "string": `"x"`, "address": "10.0.0.1",
		"instance": "i-0b22a22eec53b9321", "region": "nyc1", "token": sessionToken, "page": "<html><body>It works!</body></html>",
		"vm": `{"vmId":"13f56399-bd52-4150-9748-7190aae1ff21","interface":[{"macAddress":"x"}]}`,
	}
	for name, s := range services() {
		for what, text := range replies {
			t.Run(name+" "+what, func(t *testing.T) {
				refused(t, name, s.root, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Metadata-Flavor", "Google")
					io.WriteString(w, text)
				}))
			})
		}
	}
}

// One invalid value rejects all facts of a metadata service.
func TestInvalidValue(t *testing.T) {
	for name, s := range services() {
		for key, good := range s.values {
			if strings.Contains(good, "secret") || good == "" || strings.HasPrefix(key, "attributes") {
				continue
			}
			for what, bad := range map[string]string{
				"escape": "\x1b[2J" + good, "newline": good + "\nsecond", "zero": good + "\x00", "long": strings.Repeat("a", 300),
				"invalid": good + "\xff",
			} {
				t.Run(name+" "+key+" "+what, func(t *testing.T) {
					changed := s
					changed.values = maps.Clone(s.values)
					changed.values[key] = bad
					refused(t, name, s.root, changed)
				})
			}
		}
	}
}

// A reply without end, a redirect, a silent server and a slow one give no facts in bounded time.
func TestRefusedReplies(t *testing.T) {
	for name, s := range services() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, name, s.root, http.HandlerFunc(endless))
			real := httptest.NewServer(s)
			defer real.Close()
			refused(t, name, s.root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Metadata-Flavor", "Google")
				http.Redirect(w, r, real.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
			}))
			refused(t, name, s.root, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
			refused(t, name, s.root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Metadata-Flavor", "Google")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
		})
	}
}

// endless replies until the client closes the connection.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Metadata-Flavor", "Google")
	chunk := []byte(strings.Repeat("1", 4096))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// A metadata service of GCE marks its replies.
func TestReplyHeader(t *testing.T) {
	s := gceService()
	good := s.check
	s.check = func(w http.ResponseWriter, r *http.Request) bool {
		ok := good(w, r)
		w.Header().Del("Metadata-Flavor")
		return ok
	}
	refused(t, "env_gce", s.root, s)
}

// A service that identifies a machine and then does not answer gives no facts in bounded time.
func TestSilentAfterProbe(t *testing.T) {
	for name, last := range map[string]string{"env_aws": "mac", "env_gce": "tags", "env_azure": "network", "env_digitalocean": "hostname"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := services()[name]
			refused(t, name, s.root, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/"+last) {
					<-r.Context().Done()
					return
				}
				s.ServeHTTP(w, r)
			}))
		})
	}
}

// A reply above the size limit is refused even if the service is otherwise valid.
func TestReplySize(t *testing.T) {
	for size, facts := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		s := azureService()
		for key, text := range s.values {
			s.values[key] = text + strings.Repeat(" ", size-len(text))
		}
		p := start(t, "env_azure", s.root, s)
		p.RetryAttempts, p.RetryInterval = 20, time.Millisecond
		if found, err := detect(t, p); err != nil || (found != nil) != facts {
			t.Errorf("replies of %d bytes: facts %v, error %v, want some: %v", size, found, err, facts)
		}
	}
}
