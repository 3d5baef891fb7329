package alloc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

type sandboxOptions struct {
	task    string
	formats term.Formats
}

func sandboxCommand() term.Command {
	return term.Command{
		Name: "alloc sandbox", Args: "<allocation>", MinArgs: 1, MaxArgs: 1,
		Short: "Compare the declared and the live sandbox of running tasks",
		Long: "Shows each layer of a task's sandbox, as declared at task start and as the kernel reports it for the live process. " +
			"The layers are users, capabilities, namespaces, mounts, limits, cgroup and seccomp. The kernel does not report the Landlock rules of " +
			"a process, so these are shown as declared. The exit code is 1 when a layer is less strict than declared.",
		Setup: func(f *term.Flags) term.Run {
			o := &sandboxOptions{}
			f.StringVar(&o.task, "task", "", "The `task` to show. Default: all tasks.")
			f.Bool("verbose", false, "Print full IDs.")
			o.formats.Declare(f)
			return o.run
		},
	}
}

func (o *sandboxOptions) run(ctx context.Context, e *term.Env) error {
	at, task, err := target(ctx, e, o.task)
	if err != nil {
		return err
	}
	list, err := at.client.Allocations().Sandbox(at.alloc, task, query(ctx, at.alloc))
	if err != nil {
		return fmt.Errorf("Error reading the sandbox: %w", err)
	}
	if o.formats.Wanted() {
		if err := o.formats.Print(e, list); err != nil {
			return err
		}
	} else {
		for i, name := range slices.Sorted(maps.Keys(list)) {
			if i > 0 {
				e.Println("")
			}
			showSandbox(e, name, list[name])
		}
	}
	return mismatched(list)
}

func showSandbox(e *term.Env, name string, s *api.TaskSandbox) {
	e.Println(e.Bold(fmt.Sprintf("Task %q", name)))
	e.Println(term.Pairs([]string{
		term.Row("PID", s.PID), term.Row("Level", s.Level), term.Row("Denials Explained", s.Explain),
	}))
	rows := []string{"Layer|Declared|Live|Match"}
	for _, l := range s.Layers {
		live, match := l.Live, "yes"
		switch {
		case !l.Match:
			match = "NO"
		case live == "":
			live, match = "(not reported by the kernel)", "-"
		case l.Stricter:
			match = "stricter"
		}
		if live == "" {
			live = "(nothing)"
		}
		rows = append(rows, term.Row(l.Name, l.Declared, live, match))
	}
	e.Println("\n" + term.Table(rows))
}

// mismatched returns an error that lists the layers that differ from the declaration.
func mismatched(list map[string]*api.TaskSandbox) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		for _, l := range list[name].Layers {
			if !l.Match {
				names = append(names, name+": "+l.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("Sandbox differs from its declaration: %s", strings.Join(names, ", "))
}
