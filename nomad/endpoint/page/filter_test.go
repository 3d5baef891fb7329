package page

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
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
			var coded *nomad.CodedError
			if !errors.As(err, &coded) || coded.Code != 400 || !strings.HasPrefix(coded.Message, "failed to read filter expression: ") {
				t.Errorf("Page() = %.200v, want 400 failed to read filter expression", err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
				t.Errorf("Page() allocates %d bytes, want at most 32 MiB", n)
			}
		})
	}
}
