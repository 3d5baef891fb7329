package taskenv_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// TestNames checks the names of a task's services: what the client makes of them, and what the servers accept.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		want   string // Name
		others string // names that the servers also accept, with commas
		unsafe bool   // the servers accept none
		refs   string // References, with commas
	}{
		"web":               {want: "web"},
		"${NOMAD_JOB_NAME}": {want: "shop"},
		"${NOMAD_JOB_NAME}-${NOMAD_TASK_NAME}-${NOMAD_ALLOC_INDEX}":   {want: "shop-web-3"},
		"${env.NOMAD_NAMESPACE}-${NOMAD_GROUP_NAME}-${NOMAD_REGION}":  {want: "prod-front-eu"},
		"${NOMAD_SHORT_ALLOC_ID}":                                     {want: "01234567"},
		"${NOMAD_META_who}-${NOMAD_META_job_only}${NOMAD_META_MAYBE}": {want: "task-1"},
		"${NOMAD_PORT_http_in}":                                       {want: "8080"},
		"${node.region}":                                              {want: "eu"},
		"${meta.rack}":                                                {want: "r9", refs: "meta.rack"},
		"${env.NOMAD_DC}":                                             {want: "dc1", refs: "NOMAD_DC"},
		"${node.unique.id}":                                           {want: "node-id", refs: "node.unique.id"},
		"a-${attr.cpu.arch}-${NOMAD_DC}":                              {want: "a-amd64-dc1", refs: "attr.cpu.arch,NOMAD_DC"},
		"${NOMAD_META_on_node}":                                       {want: "amd64", refs: "attr.cpu.arch"},
		"a-${meta.none}":                                              {want: "a-${meta.none}", refs: "meta.none"},
		"${GREETING}":                                                 {want: "hello from web on n1", refs: "node.unique.name"},
		"web-${HOME}":                                                 {want: "web-${HOME}", others: "web-,web-db", refs: "HOME"},
		"${HOME}-${meta.rack}-web":                                    {want: "${HOME}-r9-web", others: "-r9-web,x-r9-web", refs: "HOME,meta.rack"},
		"a-${HOME}-b-${DIR}-c":                                        {want: "a-${HOME}-b-${NOMAD_TASK_DIR}/x-c", others: "a-1-b-2/x-c", refs: "HOME,NOMAD_TASK_DIR"},
		"${HOME}":                                                     {want: "${HOME}", unsafe: true, refs: "HOME"},
		"${HOME}-${PATH}":                                             {want: "${HOME}-${PATH}", unsafe: true, refs: "HOME,PATH"},
		"${HOME}${meta.rack}":                                         {want: "${HOME}r9", unsafe: true, refs: "HOME,meta.rack"},
		"${a:-b}":                                                     {want: "${a:-b}"},
	} {
		// The client and a server have values of their own of the same allocation and node.
		client, server := taskenv.NewNames(subject()), taskenv.NewNames(subject())
		got := client.Name(name)
		if direct := taskenv.New(subject()).Build().Expand(name); got != c.want || direct != got {
			t.Errorf("%s: Name() = %q, the environment has %q, want %q", name, got, direct, c.want)
		}
		if server.Allows(name, got) == c.unsafe {
			t.Errorf("%s: Allows(%q) = %v", name, got, c.unsafe)
		}
		for _, other := range []string{"db", "", "web-db", "web-", "-r9-web", "x-r9-web", "a-1-b-2/x-c", "a-r9-b", got + "x", "x" + got, name} {
			want := other == got && !c.unsafe || c.others != "" && strings.Contains(","+c.others+",", ","+other+",")
			if fits := strings.HasPrefix(got, "web-$") && strings.HasPrefix(other, "web-") ||
				strings.HasSuffix(got, "}-r9-web") && strings.HasSuffix(other, "-r9-web"); c.others != "" && fits {
				want = true // made of got
			}
			if server.Allows(name, other) != want {
				t.Errorf("%s: Allows(%q) = %v", name, other, !want)
			}
		}
		if refs := strings.Join(server.References(name), ","); refs != c.refs {
			t.Errorf("%s: References() = %s, want %s", name, refs, c.refs)
		}
	}
}

// TestNames_HostileNode checks that a node cannot widen a name with what it registers.
func TestNames_HostileNode(t *testing.T) {
	for _, value := range []string{"${HOME}", "$", "{HOME}", strings.Repeat("x", 1<<20)} {
		s := subject()
		s.Node.Meta["rack"] = value
		s.Task.Env = map[string]string{"BIG": strings.Repeat("${meta.rack}", 40)}
		names := taskenv.NewNames(s)
		for _, name := range []string{"${meta.rack}", "${meta.rack}-${NOMAD_JOB_NAME}", "${meta.rack}{web}", "$${meta.rack}{HOME}",
			"${NOMAD_JOB_NAME}", "${BIG}${BIG}-${NOMAD_JOB_NAME}"} {
			for _, other := range []string{"db", "db-shop", "x", "-shop"} {
				if names.Allows(name, other) {
					t.Errorf("meta %.20q: %s may be %s", value, name, other)
				}
			}
		}
	}
}
