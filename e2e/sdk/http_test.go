package sdk_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// reply is the result of a background request.
type reply struct {
	index uint64
	code  int
	body  string
	took  time.Duration
}

// later sends a request in the background.
func later(t *testing.T, a *cluster.Agent, path string) <-chan reply {
	t.Helper()
	out := make(chan reply, 1)
	go func() {
		at := time.Now()
		resp, err := http.Get(a.Address() + path)
		if err != nil {
			out <- reply{body: err.Error()}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		out <- reply{indexOf(resp), resp.StatusCode, fmt.Sprint(string(body), err), time.Since(at)}
	}()
	return out
}

func indexOf(resp *http.Response) uint64 {
	n, err := strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Blocking queries block until the requested data has changed, and no longer.
func TestBlockingQueries(t *testing.T) {
	a := harness.DevAgent(t)
	// A batch job has no deployment, whose success would change it later.
	harness.Run(t, a, harness.Job("watched", `type = "batch"`, harness.SmallTask))
	al := harness.Await(t, a, "watched", "running", 1)[0]
	for i, path := range []string{"/v1/jobs", "/v1/job/watched", "/v1/job/watched/allocations", "/v1/job/watched/evaluations",
		"/v1/job/watched/summary", "/v1/job/watched/versions",
		"/v1/allocations", "/v1/allocation/" + al.ID, "/v1/evaluations", "/v1/node/" + al.NodeID + "/allocations"} {
		t.Run(path, func(t *testing.T) {
			settled, short := settle(t, a, path), reply{}
			// Changes in the meantime are reported as well, for example the end of a task.
			harness.Within(t, harness.Patience, path+" does not change", func() bool {
				short = <-later(t, a, fmt.Sprintf("%s?index=%d&wait=100ms", path, settled))
				still := short.code != 200 || short.index <= settled
				if !still {
					settled = short.index
				}
				return still
			})
			if short.code != 200 || short.took < 100*time.Millisecond || short.index != settled {
				t.Errorf("after its wait: %d in %s at index %d, want 200 after 100ms at %d", short.code, short.took, short.index, settled)
			}
			woken := later(t, a, fmt.Sprintf("%s?index=%d&wait=60s", path, settled))
			// In place: the first allocation stays, a second is added or stopped.
			harness.Run(t, a, harness.Job("watched", fmt.Sprintf("type = \"batch\"\npriority = %d", 51+i),
				fmt.Sprintf("count = %d\n", 2-i%2)+harness.SmallTask))
			select {
			case r := <-woken:
				if r.code != 200 || r.index <= settled {
					t.Errorf("woken with %d at index %d, want more than %d", r.code, r.index, settled)
				}
			case <-time.After(harness.Patience):
				t.Error("not woken by the change")
			}
		})
	}
	t.Run("another job", func(t *testing.T) {
		settled := settle(t, a, "/v1/job/watched")
		woken := later(t, a, fmt.Sprintf("/v1/job/watched?index=%d&wait=60s", settled))
		harness.Run(t, a, harness.Job("other", "", harness.SmallTask))
		harness.Await(t, a, "other", "running", 1)
		select {
		case r := <-woken:
			t.Fatalf("woken at index %d by a change of another job", r.index)
		default:
		}
		harness.Stop(t, a, "watched")
		if r := <-woken; !harness.ContainsJSON(r.body, `"Stop":true`) {
			t.Errorf("woken with %s", r.body)
		}
	})
}

// settle returns the index of a path after it no longer changes.
func settle(t *testing.T, a *cluster.Agent, path string) uint64 {
	t.Helper()
	var index uint64
	harness.Within(t, harness.Patience, path+" is quiet", func() bool {
		resp, _ := harness.Get(t, a, path)
		if index = indexOf(resp); index == 0 {
			return false
		}
		r := <-later(t, a, fmt.Sprintf("%s?index=%d&wait=150ms", path, index))
		return r.index == index
	})
	return index
}

// Lists with pages, filter, prefix and reverse order.
func TestLists(t *testing.T) {
	a := harness.DevAgent(t)
	var want []string
	for i := range 5 {
		id, _ := harness.Run(t, a, harness.Job(fmt.Sprintf("list-%d", i), `type = "batch"`, strings.Replace(harness.SmallTask, "1h", "1ms", 1)))
		harness.Await(t, a, id, "complete", 1)
		want = append(want, id)
	}
	harness.Run(t, a, harness.Job("else", "", harness.SmallTask))
	field := regexp.MustCompile(`"(?:JobID|ID)":"(list-\d|else)"`)
	ids := func(body string) []string {
		var out []string
		for _, m := range field.FindAllStringSubmatch(body, -1) {
			if len(out) == 0 || out[len(out)-1] != m[1] {
				out = append(out, m[1])
			}
		}
		return out
	}
	all := func(path string) []string {
		var got []string
		token := ""
		for range 10 {
			resp, body := harness.Get(t, a, path+"&per_page=2&next_token="+url.QueryEscape(token))
			if resp.StatusCode != 200 {
				t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
			}
			got = append(got, ids(body)...)
			if token = resp.Header.Get("X-Nomad-NextToken"); token == "" {
				return got
			}
		}
		t.Fatalf("%s: the pages do not end: %v", path, got)
		return nil
	}
	for path, list := range map[string][]string{
		"/v1/jobs?prefix=list":                                              want,
		"/v1/jobs?namespace=*":                                              append([]string{"else"}, want...),
		"/v1/jobs?reverse=true&prefix=list":                                 {"list-4", "list-3", "list-2", "list-1", "list-0"},
		"/v1/jobs?filter=" + url.QueryEscape(`Type == "service"`):           {"else"},
		"/v1/evaluations?filter=" + url.QueryEscape(`JobID matches "list"`): want,
		"/v1/allocations?filter=" + url.QueryEscape(`JobID matches "list" and ClientStatus == "complete"`): want,
	} {
		if got := all(path); strings.Join(got, " ") != strings.Join(list, " ") {
			t.Errorf("%s: %v, want %v", path, got, list)
		}
	}
}

// Errors have a status and a text.
func TestHTTPErrors(t *testing.T) {
	a := harness.DevAgent(t)
	const none = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	for _, c := range []struct {
		method, path, body string
		code               int
		text               string // a pattern
	}{
		{"GET", "/v1/nosuch", "", 404, "^$"},
		{"GET", "/v1/job/nosuch", "", 404, "^job not found$"},
		{"GET", "/v1/job/nosuch/summary", "", 404, "^job not found$"},
		{"GET", "/v1/allocation/" + none, "", 404, "^alloc not found$"},
		{"GET", "/v1/evaluation/" + none, "", 404, "^eval not found$"},
		{"GET", "/v1/deployment/" + none, "", 404, "^deployment not found$"},
		{"GET", "/v1/node/" + none, "", 404, "^node not found$"},
		{"GET", "/v1/node/pool/nosuch", "", 404, "^node pool not found$"},
		{"PUT", "/v1/allocation/" + none + "/stop", "", 404, "^allocation not found$"},
		{"GET", "/v1/client/fs/ls/" + none, "", 404, `(?i)^unknown allocation "` + none + `"$`},
		{"GET", "/v1/client/fs/logs/" + none + "?task=t&type=stdout", "", 404, `(?i)unknown allocation`},
		{"DELETE", "/v1/jobs", "", 405, "^Invalid method$"},
		{"POST", "/v1/nodes", "", 405, "^Invalid method$"},
		{"HEAD", "/v1/jobs", "", 405, "^$"},
		{"PUT", "/v1/jobs", "", 400, "^Request body is empty$"},
		{"PUT", "/v1/jobs", "{", 400, "."},
		{"PUT", "/v1/jobs", "{}", 400, "Job must be specified"},
		{"PUT", "/v1/jobs", `{"Job":{"Name":"x"}}`, 400, "Job must have an ID"},
		{"PUT", "/v1/job/a", `{"Job":{"ID":"b"}}`, 400, "(?i)job id"},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":""}`, 400, "empty"},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"x\" {"}`, 400, "."},
		{"GET", "/v1/jobs?index=x", "", 400, "^Invalid index$"},
		{"GET", "/v1/jobs?index=1&wait=x", "", 400, "^Invalid wait time$"},
		{"GET", "/v1/jobs?stale=x", "", 400, "."},
		{"GET", "/v1/jobs?per_page=x", "", 400, "."},
		{"GET", "/v1/jobs?filter=%3D%3D", "", 400, "."},
		{"GET", "/v1/jobs?region=mars", "", 500, "^No path to region$"},
		{"GET", "/v1/client/fs/ls/x", "", 404, "."},
		{"GET", "/v1/client/fs/cat/" + none, "", 400, "path"},
		{"PUT", "/v1/client/allocation/" + none + "/signal", `{"Signal":"SIGHUP"}`, 404, "(?i)unknown allocation"},
	} {
		resp, body := harness.Request(t, c.method, a.Address()+c.path, c.body, nil)
		if resp.StatusCode != c.code || !regexp.MustCompile(c.text).MatchString(body) {
			t.Errorf("%s %s %s: %d %q, want %d %q", c.method, c.path, c.body, resp.StatusCode, body, c.code, c.text)
		}
		if body != "" && resp.StatusCode >= 400 && resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %s: the error is %s", c.method, c.path, resp.Header.Get("Content-Type"))
		}
	}
	resp, _ := harness.Get(t, a, "/v1/jobs?stale")
	if resp.Header.Get("X-Nomad-KnownLeader") != "true" || resp.Header.Get("X-Nomad-LastContact") == "" {
		t.Errorf("a stale read has headers %v", resp.Header)
	}
}

// A body over the limit is rejected before it is read in full, with and without a Content-Length.
func TestBodyLimit(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "limit.hcl")
	harness.WriteFile(t, cfg, "limits {\n http_max_request_body = \"1MB\"\n}\nhttp_api_response_headers {\n X-Own = \"yes\"\n}\n")
	a := harness.DevAgent(t, "-config="+cfg)
	for name, length := range map[string]int64{"declared": 1 << 40, "not declared": -1} {
		var resp *http.Response
		// The agent closes the connection half a second after its answer: a slow reader may see
		// only the end.
		harness.Within(t, harness.Patience, "an answer to a length that is "+name, func() bool {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, a.Address()+"/v1/jobs",
				&endlessBody{}) // the transport may read on after the answer
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = length
			resp, err = http.DefaultTransport.RoundTrip(req)
			return err == nil
		})
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || resp.Header.Get("X-Own") != "yes" {
			t.Errorf("%s: %d %v, want 413 with our header", name, resp.StatusCode, resp.Header)
		}
	}
}

// endlessBody is a JSON string without an end.
type endlessBody struct{ n int64 }

func (b *endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	if b.n == 0 {
		copy(p, `{"Job":"`)
	}
	if b.n += int64(len(p)); b.n > 1<<30 {
		return 0, io.ErrUnexpectedEOF // far more than the agent may read
	}
	return len(p), nil
}

func (b *endlessBody) Close() error { return nil }

// A reader that follows logs gets every line across rotations, also compressed; when readers
// disconnect, the agent releases their resources.
func TestFollowLogs(t *testing.T) {
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "debug.hcl")
	harness.WriteFile(t, cfg, "enable_debug = true\n")
	a := harness.DevAgent(t, "-config="+cfg)
	gate := filepath.Join(dir, "gate")
	id, _ := harness.Run(t, a, harness.Job("talker", "",
		harness.Shell(`echo begin; until [ -e `+gate+
			` ]; do sleep 0.02; done; i=0; while [ $i -lt 30000 ]; do echo $i 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789; i=$((i+1)); done; echo end; exec sleep 3600`,
			"logs {\n max_files = 5\n max_file_size = 1\n}")))
	al := harness.Await(t, a, id, "running", 1)[0]
	harness.WaitLog(t, a, al)
	path := fmt.Sprintf("/v1/client/fs/logs/%s?task=t&type=stdout&follow=true&plain=true&origin=start", al.ID)
	before := load(t, a)
	var readers []io.ReadCloser
	for range 20 {
		readers = append(readers, open(t, a, path, ""))
	}
	packed := open(t, a, path, "gzip")
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "readers cost something", func() bool { return load(t, a) >= before+20 })
	harness.WriteFile(t, gate, "")
	for name, in := range map[string]io.Reader{"plain": readers[0], "packed": unpacked} {
		checkFollowed(t, name, in)
	}
	for _, r := range append(readers, packed) {
		r.Close()
	}
	harness.Within(t, harness.Patience, "the resources of the readers are released", func() bool { return load(t, a) <= before+4 })
	harness.Stop(t, a, id)
}

func checkFollowed(t *testing.T, name string, in io.Reader) {
	t.Helper()
	done := make(chan string, 1)
	go func() {
		var b strings.Builder
		buf := make([]byte, 64<<10)
		for !strings.HasSuffix(b.String()[max(0, b.Len()-5):], "\nend\n") {
			n, err := in.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				break
			}
		}
		done <- b.String()
	}()
	select {
	case text := <-done:
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) != 30002 {
			t.Fatalf("%s: %d lines, want 30002", name, len(lines))
		}
		for i, line := range lines[1 : len(lines)-1] {
			if !strings.HasPrefix(line, strconv.Itoa(i)+" ") {
				t.Fatalf("%s: line %d is %q", name, i, line)
			}
		}
	case <-time.After(harness.Patience):
		t.Fatalf("%s: the end did not come", name)
	}
}

// open starts to read a stream.
func open(t *testing.T, a *cluster.Agent, path, accept string) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.Address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept-Encoding", accept)
	}
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Encoding") != accept || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("GET %s: %+v, %v", path, resp, err)
	}
	return resp.Body
}

// load counts the agent's goroutines and open files.
func load(t *testing.T, a *cluster.Agent) int {
	t.Helper()
	_, text := harness.Get(t, a, "/debug/pprof/goroutine?debug=1")
	var n int
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &n); err != nil {
		t.Fatalf("%v in %.100s", err, text)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return n + len(files)
}
