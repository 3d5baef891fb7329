package ui

import (
	"fmt"
	"strings"
	"testing"
)

// file is a job file with a variable.
func file(id string, count int) string {
	return fmt.Sprintf(`variable "memory" {
  type = number
}

job %q {
  group "web" {
    count = %d
    task "server" {
      driver = "mock_driver"
      config { run_for = "1h" }
      resources {
        cpu    = 20
        memory = var.memory
      }
    }
  }
}
`, id, count)
}

// source returns the text of the job file in the page.
func (p *tab) source() string {
	return evaluate[string](p, "[...document.querySelectorAll('label')].find((e) => e.innerText === 'Job file').control.value")
}

func TestRunPage(t *testing.T) {
	h := open(t)
	h.run(t, mock("planned", ""))
	h.visit(t, visited{name: "run", path: "/ui/jobs/run", text: "Job file"})
	h.visit(t, visited{name: "run-plan", path: "/ui/jobs/run", text: "Job file", act: func(p *tab) {
		p.typeInto("Job file", file("planned", 2))
		p.typeInto("Variables", "memory = 20")
		p.click("Plan")
		p.waitText("can take one more allocation")
	}})
	h.visit(t, visited{name: "run-unplaced", path: "/ui/jobs/run", text: "Job file", act: func(p *tab) {
		p.typeInto("Job file", unplaced)
		p.click("Plan")
		p.waitText("memory 9000000 MiB")
	}})
}

// A job file goes from an error to the plan, to a conflict, and to the job. The text is never lost.
func TestRunJob(t *testing.T) {
	h := open(t)
	h.run(t, mock("typed", ""))
	p := h.signedIn(t, "400", "500")
	p.show(views[0])
	p.goTo("/ui/jobs", "Run a job")
	p.click("Run a job")
	p.typeInto("Job file", `job "typed" {`)
	p.click("Plan")
	p.waitText("The job could not be planned.")
	p.axe(views[0])
	if got := p.source(); got != `job "typed" {` {
		t.Errorf("after an error the text is %q", got)
	}
	text := file("typed", 3)
	p.typeInto("Job file", text)
	p.click("Plan")
	p.waitText("The job could not be planned.") // the variable has no value
	p.typeInto("Variables", "memory = 21")
	p.click("Plan")
	p.waitText("The job is changed.")
	p.waitText("1 of 1 node can take one more allocation")
	p.waitText("MemoryMB")
	p.typeInto("Variables", "memory = 22") // a plan is that of its text
	p.wait("no button runs the old plan", "![...document.querySelectorAll('button')].some((b) => b.innerText === 'Run')")
	p.click("Plan")
	p.waitText("The job is changed.")

	h.run(t, mock("typed", "priority = 60")) // someone else
	p.clickButton("Run")
	p.waitText("The job was changed since this plan.")
	if got := p.source(); got != text {
		t.Errorf("after a conflict the text is %q", got)
	}
	if n := h.job(t, "typed").TaskGroups[0].Count; n != 1 {
		t.Errorf("the job was run over a change: count %d", n)
	}
	p.click("Sign in and settings") // as after an expired token
	p.waitText("Appearance")
	evaluate[bool](p, "history.back() || true")
	p.waitText("Run a job")
	if got := p.source(); got != text {
		t.Errorf("after a look at another page the text is %q", got)
	}
	p.click("Plan")
	p.waitText("The job is changed.")
	p.clickButton("Run")
	p.wait("the page of the job", "location.pathname.includes('/ui/jobs/typed%40default')")
	if n := h.job(t, "typed").TaskGroups[0].Count; n != 3 {
		t.Errorf("the job has a count of %d", n)
	}
	var submission struct{ Source, Format, Variables string }
	h.call(t, "GET", jobAPI("typed")+fmt.Sprintf("/submission?version=%d", h.job(t, "typed").Version), nil, &submission)
	if submission.Source != text || submission.Format != "hcl2" || submission.Variables != "memory = 22" {
		t.Errorf("submitted %+v", submission)
	}
	p.goTo("/ui/jobs/run", "Job file")
	if got := p.source(); got != "" {
		t.Errorf("after the run the text is %q", got)
	}
}

// Jobs as JSON, and files of the user. A number that a browser would change is refused.
func TestRunJSON(t *testing.T) {
	h := open(t)
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/jobs/run", "Job file")
	const variables = "[...document.querySelectorAll('main label')].some((e) => e.innerText === 'Variables')"
	p.wait("a field for the variables of HCL", variables)
	openFile := func(name, text string) {
		t.Helper()
		evaluate[bool](p, fmt.Sprintf(`((input) => {
			const files = new DataTransfer()
			files.items.add(new File([%q], %q))
			input.files = files.files
			return input.dispatchEvent(new Event('change', { bubbles: true }))
		})(document.querySelector('input[type=file]'))`, text, name))
	}
	openFile("big.nomad.json", strings.Repeat("x", 1<<20+1))
	p.waitText("a job file has 1 MiB at most")
	openFile("program", "\u007fELF\x00\x00")
	p.waitText("is not a text file")
	const group = `[{"Name": "web", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"%s}}]}]`
	openFile("a.json", `{"Job": {"ID": "json", "Type": "batch", "Datacenters": ["*"], "TaskGroups": `+fmt.Sprintf(group,
		`, "exit_code": 12345678901234567890`)+`}}`)
	p.wait("the text", "document.querySelector('textarea').value.includes('12345678901234567890')")
	p.click("Plan")
	p.waitText("too large for a browser")
	openFile("b.json", "{")
	p.wait("the text", "document.querySelector('textarea').value === '{'")
	p.click("Plan")
	p.waitText("so it must be JSON")
	openFile("c.json", `{"Job": {"ID": "json", "Type": "batch", "Datacenters": ["*"], "TaskGroups": `+fmt.Sprintf(group, "")+`}}`)
	p.wait("the text", "document.querySelector('textarea').value.includes('run_for')")
	p.wait("no field for variables, which JSON does not have", "!"+variables)
	p.click("Plan")
	p.waitText("Each allocation can be placed.")
	p.clickButton("Run")
	p.wait("the page of the job", "location.pathname.includes('/ui/jobs/json%40default')")
	h.waitAllocs(t, "json", "running", 1)
}

// Without the right to submit jobs nothing is run, and the text stays.
func TestRunWithoutRight(t *testing.T) {
	h := open(t)
	_, secret := h.token(t, `namespace "default" { policy = "read" }`, 0)
	p := h.with(t, secret, "403")
	p.show(views[0])
	p.goTo("/ui/jobs/run", "Job file")
	p.typeInto("Job file", mock("refused-run", ""))
	p.click("Plan")
	p.waitText("The job could not be planned.")
	p.waitText("Permission denied")
	if got := p.source(); !strings.Contains(got, "refused-run") {
		t.Errorf("the text is %q", got)
	}
}

// A job is changed from its page: its file and its variables are loaded, also those that were flags.
func TestEditJob(t *testing.T) {
	h := open(t)
	var job any
	h.call(t, "PUT", "/v1/jobs/parse", m{"JobHCL": file("edit", 1), "Variables": "memory = 20", "Canonicalize": true}, &job)
	h.call(t, "PUT", "/v1/jobs", m{
		"Job":        job,
		"Submission": m{"Source": file("edit", 1), "Format": "hcl2", "VariableFlags": m{"memory": "20"}},
	}, nil)
	h.run(t, mock("edit-json", ""))
	p := h.signedIn(t, "404")
	p.show(views[0])
	p.goTo(jobPath("edit", "definition"), "Edit and plan")
	p.click("Edit and plan")
	p.wait("the file", "document.querySelector('textarea')?.value.includes('var.memory')")
	if got := evaluate[string](p, "location.search"); got != "" {
		t.Errorf("the URL keeps %q", got)
	}
	p.click("Plan")
	p.waitText("The job does not change.")
	p.typeInto("Job file", file("edit", 2))
	p.click("Plan")
	p.waitText("The job is changed.")
	p.clickButton("Run")
	p.wait("the page of the job", "location.pathname.includes('/ui/jobs/edit%40default')")
	if n := h.job(t, "edit").TaskGroups[0].Count; n != 2 {
		t.Errorf("the job has a count of %d", n)
	}
	p.goTo(jobPath("edit-json", "definition"), "Edit and plan")
	p.click("Edit and plan")
	p.wait("the JSON", "document.querySelector('textarea')?.value.includes('\"edit-json\"')")
	p.click("Plan")
	p.waitText("The job does not change.")

	got := evaluate[string](p, `(async () => {
		const { variablesOf } = await import(document.querySelector('script[type=module]').src.replace(/[^/]*$/, 'pages/run/file.js'))
		return variablesOf({ Variables: 'a = 1\n', VariableFlags: { c: '%{x} $' + '{y}', b: '"q"' } }) + '|' + variablesOf({})
	})()`)
	if want := "a = 1\nb = \"\\\"q\\\"\"\nc = \"%%{x} $${y}\"|"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
