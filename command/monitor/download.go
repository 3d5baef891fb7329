package monitor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/fetch"
)

const (
	// downloadsEvery is the minimum interval between two looks at the downloads of a deployment.
	downloadsEvery = 5 * time.Second
	// maxDownloads is the maximum number of lines of one look.
	maxDownloads = 10
)

// downloads prints the progress of the artifacts of a deployment until ctx ends: at most one line for each task
// and look. It skips a failed query, because the query of the deployment reports what is wrong.
func (m *Monitor) downloads(ctx context.Context, id string) {
	shown := map[string]int64{} // time of the latest event that was printed, by allocation and task
	var index uint64
	for {
		allocs, meta, err := m.client.Deployments().Allocations(id, m.query(ctx, index))
		if err == nil {
			index = meta.LastIndex
			m.printDownloads(newDownloads(allocs, shown))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(downloadsEvery):
		}
	}
}

// download is an event with the progress of an artifact of a task that has not started.
type download struct {
	alloc, task string
	event       *api.TaskEvent
}

// newDownloads returns the downloads that have advanced since the events in shown, which it updates. They are
// sorted by task and allocation.
func newDownloads(allocs []*api.AllocationListStub, shown map[string]int64) []download {
	var out []download
	for _, a := range allocs {
		for task, state := range a.TaskStates {
			if state == nil || state.State != "pending" || len(state.Events) == 0 {
				continue
			}
			last, key := state.Events[len(state.Events)-1], a.ID+"/"+task
			if last.Type != api.TaskDownloadingArtifacts || last.Details["downloaded_bytes"] == "" || last.Time <= shown[key] {
				continue
			}
			shown[key] = last.Time
			out = append(out, download{a.ID, task, last})
		}
	}
	slices.SortFunc(out, func(a, b download) int { return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.alloc, b.alloc)) })
	return out
}

func (m *Monitor) printDownloads(all []download) {
	for _, d := range all[:min(len(all), maxDownloads)] {
		m.line("Allocation %q, task %q: %s", m.id(d.alloc), d.task, progressText(d.event.Details))
	}
	if more := len(all) - maxDownloads; more > 0 {
		m.line("%d more tasks are downloading artifacts", more)
	}
}

// progressText describes the progress of a download. The source comes from the node, so its credentials, its query
// and its control characters are removed here too.
func progressText(details map[string]string) string {
	have, err := strconv.ParseUint(details["downloaded_bytes"], 10, 64)
	if err != nil {
		return "Downloading artifacts"
	}
	text := "Downloaded " + term.Bytes(have)
	if total, err := strconv.ParseUint(details["total_bytes"], 10, 64); err == nil && total > 0 {
		text += fmt.Sprintf(" of %s (%.0f %%)", term.Bytes(total), min(100*float64(have)/float64(total), 100))
	}
	if source, err := fetch.ParseSource(details["source"], nil); err == nil {
		text += " from " + fetch.Clean(source.String())
	}
	return text
}
