package page

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestFilter_Limits checks that hostile filters are answered with 400 and little memory.
func TestFilter_Limits(t *testing.T) {
	all := []*nomad.Job{{ID: "web", Name: "web", TaskGroups: []*nomad.TaskGroup{{Name: "api"}}}}
	for name, filter := range map[string]string{
		"parentheses":  strings.Repeat("(", 200) + `Name == "a"` + strings.Repeat(")", 200),
		"a megabyte":   strings.Repeat("(", 1<<20),
		"unclosed":     strings.Repeat("(", 4000),
		"repetition":   `Name matches "(abcdef){1000}(abcdef){1000}(abcdef){1000}"`,
		"nil pointer":  `Periodic matches "a"`,
		"nil pointer2": `Multiregion not matches "a"`,
		"wrong field":  `Nothing == "a"`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := List[*nomad.Job]{Opts: &message.QueryOptions{Filter: filter}, Order: ByID,
				At: func(j *nomad.Job) Cursor { return Cursor{ID: j.ID} }}.Page(slices.Values(all))
			runtime.ReadMemStats(&after)
			var coded *apierror.Coded
			if !errors.As(err, &coded) || coded.Code != 400 || !strings.HasPrefix(coded.Message, "failed to read filter expression: ") {
				t.Errorf("Page() = %.200v, want 400 failed to read filter expression", err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
				t.Errorf("Page() allocates %d bytes, want at most 32 MiB", n)
			}
		})
	}
}

// TestFilter_Slots checks that complex filters of callers without a token delay no other callers, and that those of requests
// delay no log entry. The test occupies the slots of the callers.
func TestFilter_Slots(t *testing.T) {
	occupy := func(s untrusted.Slots) {
		for range cap(s) {
			s <- struct{}{}
		}
		t.Cleanup(func() {
			for range cap(s) {
				<-s
			}
		})
	}
	complexFilter := strings.Repeat("(", 5) + `ID == "web"` + strings.Repeat(")", 5)
	get := func(token, filter string, applied bool) error {
		_, _, err := List[*nomad.Job]{Opts: &message.QueryOptions{Filter: filter, AuthToken: token}, Order: ByID, Applied: applied,
			At: func(j *nomad.Job) Cursor { return Cursor{ID: j.ID} }}.Page(slices.Values([]*nomad.Job{{ID: "web"}}))
		return err
	}
	check := func(name string, err error, want int) {
		t.Helper()
		var coded *apierror.Coded
		if got := errors.As(err, &coded); got != (want != 0) || got && coded.Code != want {
			t.Errorf("%s: %v, want status %d (0: no error)", name, err, want)
		}
	}
	occupy(untrusted.Anonymous)
	check("no token", get("", complexFilter, false), 429)
	check("no token, usual filter", get("", `ID == "web"`, false), 0)
	check("token", get("t", complexFilter, false), 0)
	occupy(untrusted.Identified.Slots)
	check("token, no slot", get("t", complexFilter, false), 429)
	check("log entry", get("", complexFilter, true), 0)
}

// TestFilter_ParsedOnce checks that a blocking query, which makes one list for each change of the state, parses its filter
// once, and that each list has the whole budget of values to read.
func TestFilter_ParsedOnce(t *testing.T) {
	filter := `((((Name matches "x{400}"))))`                                                  // complex
	job := &nomad.Job{ID: "web", Name: strings.Repeat("x", 100) + strings.Repeat("y", 30_000)} // more than half of the budget
	list := func(opts *message.QueryOptions) error {
		_, _, err := List[*nomad.Job]{Opts: opts, Order: ByID,
			At: func(j *nomad.Job) Cursor { return Cursor{ID: j.ID} }}.Page(slices.Values([]*nomad.Job{job}))
		return err
	}
	opts := &message.QueryOptions{Filter: filter, AuthToken: "t"}
	if err := list(opts); err != nil {
		t.Fatal(err)
	}
	slots := untrusted.Identified.Slots
	for range cap(slots) { // no filter as complex can be parsed any more
		slots <- struct{}{}
		defer func() { <-slots }()
	}
	for range 2 {
		if err := list(opts); err != nil {
			t.Fatalf("the next list of the request: %v", err)
		}
	}
	if err := list(&message.QueryOptions{Filter: filter, AuthToken: "t"}); err == nil {
		t.Error("another request needs no slot: the test proves nothing")
	}
	opts.Filter = `ID == "other"`
	if err := list(opts); err != nil {
		t.Errorf("another filter: %v", err)
	}
}

// TestFilter_ReducedObjects checks that a filter over hidden fields excludes the objects that the caller may not read,
// and is an error if it can be evaluated on none.
func TestFilter_ReducedObjects(t *testing.T) {
	type stub struct{ ID string }
	job := func(namespace, id string) *nomad.Job { return &nomad.Job{Namespace: namespace, ID: id, Region: "r"} }
	hidden, shown := job("hidden", "a"), job("shown", "b")
	for name, c := range map[string]struct {
		filter string
		all    []*nomad.Job
		want   string // IDs, or the error
	}{
		"a field of both":               {`ID == "a" or ID == "b"`, []*nomad.Job{hidden, shown}, "ab"},
		"a hidden field":                {`Region == "r"`, []*nomad.Job{hidden, shown}, "b"},
		"a hidden field, negated":       {`Region != "x"`, []*nomad.Job{hidden, shown}, "b"},
		"a hidden field, hidden last":   {`not Region == "x"`, []*nomad.Job{shown, hidden}, "b"},
		"a hidden field, all are stubs": {`Region == "r"`, []*nomad.Job{hidden}, "couldn't find key"},
		"no such field":                 {`Nothing == "r"`, []*nomad.Job{hidden, shown}, "couldn't find key"},
		"no objects":                    {`Region == "r"`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, err := List[*nomad.Job]{Opts: &message.QueryOptions{Filter: c.filter}, Order: ByID,
				At: func(j *nomad.Job) Cursor { return Cursor{ID: j.ID} },
				Filtered: func(j *nomad.Job) any {
					if j.Namespace == "hidden" {
						return stub{j.ID}
					}
					return j
				},
				Reduced: func(j *nomad.Job) bool { return j.Namespace == "hidden" }}.Page(slices.Values(c.all))
			got := ""
			for _, j := range found {
				got += j.ID
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
				t.Errorf("Page() = %q, want %q", got, c.want)
			}
		})
	}
}
