package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/sidecar"
)

// templated adds a template to the task of a job.
func templated(job *api.Job, text string) *api.Job {
	dest, noop, none := "local/rendered", "noop", time.Duration(0)
	job.TaskGroups[0].Tasks[0].Templates = []*api.Template{{EmbeddedTmpl: &text, DestPath: &dest, ChangeMode: &noop,
		Splay: &none, Wait: &api.WaitConfig{Min: &none, Max: &none}}}
	return job
}

// staticTemplates runs 100 tasks with and without a template that never changes.
func staticTemplates(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	const n = 100
	sleep := map[string]any{"command": "/bin/sleep", "args": []string{"600"}}
	var took [2]time.Duration
	resident := 0
	plain := batch("plain", n, "exec2", sleep)
	static := templated(batch("static", n, "exec2", sleep), `{{ env "NOMAD_ALLOC_ID" }}`)
	for i, job := range []*api.Job{plain, static} {
		began := time.Now()
		if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
			return "", false, err
		}
		if _, err := inStatus(ctx, a, goal{*job.ID, n, api.AllocClientStatusRunning}); err != nil {
			return "", false, err
		}
		took[i] = time.Since(began)
		resident = len(renderers())
		if err := stopAll(ctx, a, *job.ID, n); err != nil {
			return "", false, err
		}
	}
	each := (took[1] - took[0]) / n
	return fmt.Sprintf("%.1f ms a task over one without, %d resident processes", ms(each), resident),
		each <= 30*time.Millisecond && resident == 0, nil
}

func stopAll(ctx context.Context, a *cluster.Agent, job string, n int) error {
	if _, _, err := a.Client.Jobs().Deregister(job, false, nil); err != nil {
		return err
	}
	_, err := inStatus(ctx, a, goal{job, n, api.AllocClientStatusComplete}) // a stopping agent leaves tasks running
	return err
}

// watchedVariable changes a variable that the templates of 100 tasks watch, and measures the time
// until each file has the new value.
func watchedVariable(ctx context.Context, b *bench) (string, bool, error) {
	a, err := b.agent(ctx)
	if err != nil {
		return "", false, err
	}
	defer a.Stop()
	const n, changes = 100, 10
	if err := setVariable(a, 0); err != nil {
		return "", false, err
	}
	job := templated(batch("watch", n, "exec2", map[string]any{"command": "/bin/sleep", "args": []string{"600"}}),
		`{{ with nomadVar "`+watchedPath+`" }}value={{ .value }}{{ end }}`)
	memory := 32
	job.TaskGroups[0].Tasks[0].Resources.MemoryMB = &memory
	if _, _, err := a.Client.Jobs().Register(job, nil); err != nil {
		return "", false, err
	}
	if _, err := inStatus(ctx, a, goal{"watch", n, api.AllocClientStatusRunning}); err != nil {
		return "", false, err
	}
	var took []time.Duration
	for i := 1; i <= changes; i++ {
		t, err := changed(ctx, a, n, i)
		if err != nil {
			return "", false, err
		}
		took = append(took, t...)
	}
	pids := renderers()
	kib, err := pss(pids...)
	if err != nil {
		return "", false, err
	}
	per := float64(kib) / 1024 / float64(max(len(pids), 1))
	p50, p99 := median(took), percentile(took, 99)
	ok := p50 <= 150*time.Millisecond && p99 <= time.Second && per <= 15 && len(pids) == n
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms; %d processes of %.1f MiB PSS", ms(p50), ms(p99), len(pids), per), ok,
		stopAll(ctx, a, "watch", n)
}

// watchedPath is the path of the watched variable.
const watchedPath = "nomad/jobs/watch"

func setVariable(a *cluster.Agent, value int) error {
	_, _, err := a.Client.Variables().Update(&api.Variable{Path: watchedPath, Items: map[string]string{"value": strconv.Itoa(value)}}, nil)
	return err
}

// changed sets the watched variable and waits until n rendered files have the value. It returns the time
// of each.
func changed(ctx context.Context, a *cluster.Agent, n, value int) ([]time.Duration, error) {
	began := time.Now()
	if err := setVariable(a, value); err != nil {
		return nil, err
	}
	want := []byte("value=" + strconv.Itoa(value))
	var took []time.Duration
	done := map[string]bool{}
	for len(took) < n {
		if time.Since(began) > time.Minute || ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d files have the value %d after %s", len(took), n, value, time.Since(began).Round(time.Second))
		}
		names, err := filepath.Glob(filepath.Join(a.Dir, "nomad-dev-*/alloc/*/task/local/rendered"))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if done[name] {
				continue
			}
			if text, err := os.ReadFile(name); err == nil && bytes.Equal(text, want) {
				done[name] = true
				took = append(took, time.Since(began))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return took, nil
}

// renderers lists the programs that render templates on this machine.
func renderers() []int {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.HasPrefix(text, []byte(sidecar.Render+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}
