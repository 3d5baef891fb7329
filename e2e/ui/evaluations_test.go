package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// unplaced is a job whose groups no node can take, each for a reason of its own.
const unplaced = `job "unplaced" {
  group "web" {
    count = 3
    constraint {
      attribute = "${attr.kernel.name}"
      value     = "plan9"
    }
    task "t" {
      driver = "mock_driver"
      config { run_for = "1h" }
    }
  }
  group "big" {
    task "t" {
      driver = "mock_driver"
      config { run_for = "1h" }
      resources { memory = 9000000 }
    }
  }
}`

// evaluation waits for an evaluation of a job, and returns its ID.
func (h *house) evaluation(t *testing.T, job, status string) (id string) {
	t.Helper()
	testpace.Until(t, "an evaluation of "+job+" is "+status, func() bool {
		evals, _, err := h.agent.Client.Jobs().Evaluations(job, nil)
		for _, e := range evals {
			if e.Status == status {
				id = e.ID
			}
		}
		return err == nil && id != ""
	})
	return id
}

func TestEvaluationPages(t *testing.T) {
	h := open(t)
	name := fmt.Sprintf("unplaced-%x", time.Now().UnixNano()) // the agent is shared, and keeps evaluations
	h.run(t, strings.Replace(unplaced, `"unplaced"`, `"`+name+`"`, 1))
	id := h.evaluation(t, name, "complete")
	blocked := h.evaluation(t, name, "blocked")
	h.visit(t, visited{name: "evaluations", path: "/ui/evaluations?q=" + name, text: "big, web"})
	h.visit(t, visited{name: "evaluation", path: "/ui/evaluations/" + id, text: "memory 9000000 MiB"})

	p := h.signedIn(t, "404", "500")
	p.show(views[0])
	p.goTo("/ui/evaluations?q="+name+"&status=complete&placed=no", id[:8])
	if rows := evaluate[int](p, "document.querySelectorAll('tbody tr').length"); rows != 1 {
		t.Errorf("%d rows match", rows)
	}
	p.goTo("/ui/evaluations?q="+name, id[:8])
	p.everyChoice()
	p.click(id[:8])
	for _, text := range []string{"Why is it not placed?", "The job was registered.", "Some allocations were not placed.",
		"3 allocations not placed", "1 node excluded: ${attr.kernel.name} = plan9",
		"1 node without enough: memory", "The nodes now", "0 of 1 node can take one more allocation",
		"attr.kernel.name is \"linux\"", "Does not fit", "waits for room"} {
		p.waitText(text)
	}
	if evaluate[bool](p, "document.body.innerText.includes('datacenter *')") {
		t.Error("checks that passed are shown at first")
	}
	p.check("Show the checks that passed")
	p.waitText("datacenter *")
	p.axe(views[0])
	p.uninjected("the evaluation")
	p.click(blocked[:8])
	p.waitText("The scheduler tries again when a node or an allocation changes")
	p.goTo("/ui/evaluations/00000000-0000-0000-0000-000000000000", "Could not read this evaluation.")
}

// The pages of evaluations and of plans show hostile names as text.
func TestHostileEvaluation(t *testing.T) {
	h := open(t)
	job := m{"ID": strings.ReplaceAll(hostile("stuck"), " ", "/"), "Name": hostile("stuck"), "Type": "batch", "Datacenters": []string{"*"},
		"TaskGroups": []m{{"Name": hostile("group"), "Count": 1,
			"Constraints": []m{{"LTarget": "${meta.x}", "RTarget": hostile("constraint"), "Operand": "="}},
			"Tasks":       []m{{"Name": strings.ReplaceAll(hostile("task"), "/", "-"), "Driver": "mock_driver", "Env": m{"A": hostile("env")}}}}}}
	h.call(t, "PUT", "/v1/jobs", m{"Job": job}, nil)
	id := h.evaluation(t, job["ID"].(string), "complete")
	p := h.signedIn(t)
	p.show(views[3])
	for page, text := range map[string]string{"/ui/evaluations?q=stuck": "stuck\"'><img", "/ui/evaluations/" + id: "Does not fit"} {
		p.goTo(page, text)
		p.uninjected(page)
		p.fits(views[3])
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	p.goTo("/ui/jobs/run", "Job file")
	p.typeInto("Job file", string(text))
	p.click("Plan")
	p.waitText("Does not fit")
	p.uninjected("the plan")
	p.fits(views[3])
	p.screenshot("hostile-plan-narrow")
}

// The nodes of an explanation are paged by the server.
func TestExplainPages(t *testing.T) {
	p := open(t).signedIn(t)
	p.show(views[0])
	p.goTo("/ui/settings/tokens", "Appearance")
	evaluate[bool](p, `(async () => {
		const base = document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')
		const [{ html, render }, { Explain }] = await Promise.all(['lib/dom.js', 'parts/explain.js'].map((f) => import(base + f)))
		const node = (n) => ({ ID: 'node-' + n, Name: '', Fits: n === 1, Score: 0.5, Checks: [{ Check: 'pool', Passed: n === 1, Need: 'pool of ' + n, Found: 'pool of ' + n }] })
		const load = async (token) => ({ next: token === '2' ? '' : '2', data: { Groups: [{ Name: 'g', NodeCount: 2, Fits: 1, Nodes: [node(Number(token || 1))] }] } })
		render(html`+"`<h1>Pages</h1><${Explain} load=${load} />`"+`, document.getElementById('main'))
		return true
	})()`)
	p.waitText("1 of 2 nodes can take one more allocation")
	p.waitText("All passed.")
	p.clickButton("More nodes")
	p.waitText("pool: pool of 2")
	p.waitText("Page 2")
	p.wait("the last page", "![...document.querySelectorAll('button')].some((b) => b.innerText === 'More nodes')")
	p.clickButton("Previous nodes")
	p.waitText("Fits")
	p.check("Show the checks that passed")
	p.waitText("pool of 1")
}

// 10,000 evaluations are paged and filtered by the server.
func TestManyEvaluations(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 10,000 evaluations")
	}
	h := crowd(t)
	h.run(t, unplaced)
	id := h.evaluation(t, "unplaced", "blocked")
	var wg sync.WaitGroup
	tokens := make(chan struct{})
	for range 8 {
		wg.Go(func() {
			for range tokens {
				h.call(t, "PUT", "/v1/job/unplaced/evaluate", m{"JobID": "unplaced"}, nil)
			}
		})
	}
	for range 10_000 {
		tokens <- struct{}{}
	}
	close(tokens)
	wg.Wait()
	p := h.with(t, "")
	p.show(views[0])
	p.goTo("/ui/evaluations", "unplaced")
	if rows := evaluate[int](p, "document.querySelectorAll('tbody tr').length"); rows != 50 {
		t.Errorf("%d rows on the first page", rows)
	}
	p.clickButton("Next")
	p.waitText("51–100")
	p.clickButton("Previous")
	p.waitText("1–50")
	p.goTo("/ui/evaluations?q="+id, id[:8])
	if rows := evaluate[int](p, "document.querySelectorAll('tbody tr').length"); rows > 3 {
		t.Errorf("%d rows match one ID", rows)
	}
	if size := evaluate[int](p, "performance.getEntriesByName(performance.getEntriesByType('resource').find((e) => "+
		"e.name.includes('/v1/evaluations')).name)[0].decodedBodySize"); size > 200<<10 {
		t.Errorf("%d bytes for one page of the list", size)
	}
}
