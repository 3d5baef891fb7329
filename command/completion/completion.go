// Package completion completes the arguments and flags of commands in a shell, such as the IDs of
// jobs. It derives what a command takes from its usage line and its flags, so commands declare
// nothing for it:
//
//	Args: "<allocation> [task]"      an ID of an allocation, then the name of one of its tasks
//	flag: "Read this `file`."        a path
//
// IDs are requested from the agent that the flags before the cursor and the environment name. A
// request has a time limit (patience), and no token command of a context runs for it. After any
// error, nothing is offered and nothing is printed. The package has no goroutines and no state.
package completion

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/contextfile"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// patience bounds the request of a completion. A shell is blocked meanwhile.
const patience = 700 * time.Millisecond

// maxOffers bounds what a completion prints. Shells list all of it.
const maxOffers = 200

// With returns a command that completes its arguments and the values of its flags.
func With(c term.Command) term.Command {
	if c.Predict == nil {
		c.Predict = complete.PredictFunc(func(a complete.Args) []string { return arguments(c, a) })
	}
	c.Predict = literally(c.Predict)
	c.PredictFlag = func(f *flag.Flag) complete.Predictor {
		kind, _ := flag.UnquoteUsage(f)
		return literally(complete.PredictFunc(func(a complete.Args) []string { return values(c, f.Name, kind, a) }))
	}
	return c
}

// literal matches a path or a name that every shell takes literally.
var literal = pattern.Lazy(`^[\pL\pN_./@%+][\pL\pN_.,:/@%+=-]*$`)

// literally drops the offers that a shell would split, expand or run. Bash inserts offers without
// quotation marks, and a directory can hold files of somebody else.
func literally(p complete.Predictor) complete.Predictor {
	return complete.PredictFunc(func(a complete.Args) []string {
		return slices.DeleteFunc(p.Predict(a), func(offer string) bool { return !literal().MatchString(offer) })
	})
}

// parameter is one argument in a usage line.
type parameter struct {
	kind   string
	repeat bool
}

// parameters matches <kind>, [kind], [<kind>] and each of them with dots.
var parameters = pattern.Lazy(`\[?<([^>]*)>(\.\.\.)?\]?|\[([^\]<]*)\](\.\.\.)?`)

// parse returns the parameters of a usage line.
func parse(usage string) []parameter {
	var all []parameter
	for _, m := range parameters().FindAllStringSubmatch(usage, -1) {
		kind := m[1] + m[3]
		all = append(all, parameter{strings.TrimSuffix(kind, "..."), m[2] != "" || m[4] != "" || strings.HasSuffix(kind, "...")})
	}
	return all
}

// at returns the kind of the argument with a number, "" if the command takes no such argument.
func at(all []parameter, n int) string {
	if n < len(all) {
		return all[n].kind
	}
	if last := len(all) - 1; last >= 0 && all[last].repeat {
		return all[last].kind
	}
	return ""
}

// arguments completes the argument at the cursor.
func arguments(c term.Command, a complete.Args) []string {
	if strings.HasPrefix(a.Last, "-") { // a flag
		return nil
	}
	env := c.EnvOf(a.Completed)
	return request{command: c.Name, env: env, args: a, kind: at(parse(c.Args), len(env.Args))}.offers()
}

// values completes the value of a flag.
func values(c term.Command, name, kind string, a complete.Args) []string {
	if by, ok := flagKinds[name]; ok && (kind == "string" || kind == "value" || kind == "name" || kind == "") {
		kind = by
	}
	return request{command: c.Name, env: c.EnvOf(a.Completed), args: a, kind: kind}.offers()
}

// request is one completion.
type request struct {
	command string
	env     *term.Env // with the flags and arguments before the cursor
	args    complete.Args
	kind    string
}

// offers returns what completes the word at the cursor.
func (r request) offers() []string {
	if r.kind == "" {
		return nil
	}
	if p, ok := words[r.kind]; ok {
		return p.Predict(r.args)
	}
	var out []string
	for _, k := range kindsOf(r.command, r.kind) {
		if k == filesOf {
			out = append(out, complete.PredictFiles("*").Predict(r.args)...)
		} else if k == directoriesOf {
			out = append(out, complete.PredictDirs("*").Predict(r.args)...)
		} else if k == contextsOf {
			out = append(out, contextNames(r.args.Last)...)
		} else if list := lists[k]; list != nil {
			out = append(out, r.ask(list)...)
		}
	}
	return out[:min(len(out), maxOffers)]
}

// contextNames returns the names of the file of contexts that begin with prefix.
func contextNames(prefix string) []string {
	f, err := contextfile.Load(contextfile.Path(os.Getenv))
	if err != nil {
		return nil
	}
	var out []string
	for _, c := range f.Contexts {
		if strings.HasPrefix(c.Name, prefix) {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// ask requests a list from the agent. Names with spaces or control characters are dropped, because
// a shell would split or interpret them.
func (r request) ask(list list) []string {
	c, err := r.env.Client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	q := (&api.QueryOptions{AllowStale: true, Namespace: r.env.Namespace()}).WithContext(ctx)
	found, err := list(c, r, q)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range found {
		if plain().MatchString(name) && strings.HasPrefix(name, r.args.Last) {
			out = append(out, name)
		}
	}
	return out
}

// plain matches a name that every shell takes literally.
var plain = pattern.Lazy(`^[\pL\pN][\pL\pN_.,:/@%+=-]*$`)
