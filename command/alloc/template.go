package alloc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
)

type templateOptions struct {
	dryRun  bool
	formats term.Formats
}

func templateRenderCommand() term.Command {
	return term.Command{
		Name: "alloc template render", Args: "<allocation> [task]", MinArgs: 1, MaxArgs: 2,
		Short: "Render the templates of running tasks again",
		Long: "Renders all templates of a task, or of all running tasks of the allocation, with current data. A file whose content " +
			"changes is replaced, and the change mode of its template applies: the task may be restarted or signaled. " +
			"This needs alloc-lifecycle, or read-fs with -dry-run.\n\n" +
			"    nomad alloc template render -dry-run 5f2c web",
		Setup: func(f *term.Flags) term.Run {
			o := &templateOptions{}
			f.BoolVar(&o.dryRun, "dry-run", false, "Print the differences and change nothing.")
			o.formats.Declare(f)
			return o.run
		},
	}
}

func (o *templateOptions) run(ctx context.Context, e *term.Env) error {
	at, task, err := target(ctx, e, "")
	if err != nil {
		return err
	}
	render := at.client.Allocations().RenderTemplates
	if o.dryRun {
		render = at.client.Allocations().DiffTemplates
	}
	list, err := render(at.alloc, task, query(ctx, at.alloc))
	if err != nil {
		return fmt.Errorf("Error rendering templates: %w", err)
	}
	if o.formats.Wanted() {
		return o.formats.Print(e, list)
	}
	rows := []string{"Task|Destination|Changed"}
	var diffs []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		for _, t := range list[name] {
			changed := "no"
			if t.Changed {
				changed = "yes"
			}
			rows = append(rows, term.Row(name, t.Destination, changed))
			if t.Diff != "" {
				diffs = append(diffs, "\n"+strings.TrimRight(t.Diff, "\n"))
			}
		}
	}
	e.Println(term.Table(rows))
	for _, d := range diffs {
		e.Println(d)
	}
	return nil
}
