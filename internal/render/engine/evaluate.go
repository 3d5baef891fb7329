package engine

import (
	"cmp"
	"fmt"
	"runtime/metrics"
	"time"

	"github.com/hashicorp/consul-template/template"

	"github.com/open-nomad/open-nomad/internal/render"
)

// Limits of an evaluation.
const (
	// maxMemory is the maximum size of the heap and the stacks, if the task has that much memory. A buffer that grows to
	// MaxContent needs three times as much. The check is for the error message: a single large allocation can end before
	// it. The limit that holds is that of the control group.
	maxMemory = 80 << 20
	// checkEvery is the interval at which the limits are checked.
	checkEvery = 5 * time.Millisecond
)

// result is the result of an evaluation.
type result struct {
	text []byte
	err  error
}

// evaluate evaluates a template within the limits. It also sets the data that the template uses.
// After an exceeded limit, the evaluation continues until the program ends.
func (e *engine) evaluate(it *item) ([]byte, error) {
	e.evaluated, it.uses, it.missing = it, nil, nil
	done := make(chan result, 1)
	go func() {
		text, err := e.execute(it)
		done <- result{text, err}
	}()
	limit := cmp.Or(e.req.EvalLimit, render.EvalLimit)
	over := time.NewTimer(limit)
	defer over.Stop()
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	memory, most := newGauge(), e.memoryLimit()
	for {
		select {
		case r := <-done:
			return r.text, r.err
		case <-over.C:
			return nil, &fault{template: it.index, text: fmt.Sprintf("the evaluation takes more than %v", limit)}
		case <-check.C:
			if memory.bytes() > most {
				return nil, &fault{template: it.index, text: needsMore(most), memory: true}
			}
		}
	}
}

// memoryLimit returns the maximum size of the heap and the stacks: an eighth of the memory remains for the rest of the
// program.
func (e *engine) memoryLimit() uint64 {
	if e.complete || e.req.Memory <= 0 {
		return maxMemory
	}
	return min(maxMemory, uint64(e.req.Memory)*7/8)
}

// needsMore describes an evaluation that exceeds a limit.
func needsMore(limit uint64) string {
	text := fmt.Sprintf("the evaluation needs more than %d MiB of memory", limit>>20)
	if limit < maxMemory {
		text += ", which is what the memory of the task allows: increase memory in resources"
	}
	return text
}

// execute evaluates a template with the library.
func (e *engine) execute(it *item) ([]byte, error) {
	if it.text == "" {
		return nil, nil // the library refuses it
	}
	t, err := template.NewTemplate(&template.NewTemplateInput{
		Contents: it.text, LeftDelim: it.spec.LeftDelim, RightDelim: it.spec.RightDelim,
		ErrMissingKey: it.spec.ErrorOnMissingKey,
		ExtFuncMap:    e.functions(), FunctionDenylist: e.req.Denied,
	})
	if err != nil {
		return nil, e.explain(it.index, err.Error())
	}
	out, err := t.Execute(&template.ExecuteInput{Brain: e.brain(), Env: e.environment()})
	if err != nil {
		return nil, e.explain(it.index, err.Error())
	}
	if e.consul != nil {
		e.consul.record(it, out)
	}
	if len(out.Output) > render.MaxContent {
		return nil, &fault{template: it.index,
			text: fmt.Sprintf("the rendered text has %d bytes, at most %d are allowed", len(out.Output), render.MaxContent)}
	}
	return out.Output, nil
}

// brain returns the data for the functions of the library that read. Without Consul, there are none.
func (e *engine) brain() *template.Brain {
	if e.consul != nil {
		return e.consul.brain
	}
	return template.NewBrain()
}

// environment returns the environment for the functions env, mustEnv and envOrDefault.
func (e *engine) environment() []string {
	var env []string
	for name, value := range e.req.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// gauge measures the size of the heap's objects and of the stacks. It allocates nothing, since an
// allocation can wait for the garbage collection that a large allocation of the template has caused.
type gauge [2]metrics.Sample

func newGauge() *gauge {
	return &gauge{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
}

func (g *gauge) bytes() uint64 {
	metrics.Read(g[:])
	return g[0].Value.Uint64() + g[1].Value.Uint64()
}
