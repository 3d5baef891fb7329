//go:build linux && faults

package faults_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/jobspec"
)

// A spec is what a version of a job asks for.
type spec struct {
	Count    int
	Rev      int    // another one replaces the allocations
	Tag      int    // of the services; another one changes allocations in place
	Schedule string // of the task: "", "on" or "off" at this time of the day
	Fails    bool   // the tasks end with an error
}

// A kind is what all versions of a job have in common.
type kind struct {
	id       string
	typ      string
	counts   [2]int // least and most; 0 for a job without a count
	canaries bool   // its updates begin with one canary
	deploys  bool   // its updates are deployments
	reverts  bool   // a failed deployment is reverted
	bridge   bool   // its allocations have a network of their own
	disk     bool   // its data moves with it
	volume   bool   // its allocations have a sticky volume
	finishes bool   // its tasks end by themselves
	distinct bool   // its allocations are on nodes of their own
	inTask   bool   // its service is that of its first task, not of the group
	tasks    int    // of an allocation
	text     string // blocks of the group
	script   string // of the first task
}

// Names of volumes: of the one on each machine, and of one that no job uses.
const (
	volumeName  = "data"
	scratchName = "scratch"
)

const steady = "restart {\n attempts = 20\n interval = \"10m\"\n delay = \"250ms\"\n}\n" +
	"reschedule {\n delay = \"5s\"\n delay_function = \"constant\"\n unlimited = true\n}\n"

// maxParallel is that of the updates that are deployments.
const maxParallel = 2

const rolling = "update {\n max_parallel = 2\n min_healthy_time = \"300ms\"\n healthy_deadline = \"2m\"\n progress_deadline = \"20m\"\n" +
	" auto_revert = true\n health_check = \"task_states\"\n %s\n}\n" +
	"migrate {\n max_parallel = 2\n min_healthy_time = \"300ms\"\n health_check = \"task_states\"\n}\n"

// kinds returns the jobs of a history.
func kinds() []kind {
	return []kind{
		{id: "plain", typ: "service", counts: [2]int{1, 4}, deploys: true, reverts: true, disk: true, inTask: true, tasks: 2,
			text:   steady + fmt.Sprintf(rolling, "") + "ephemeral_disk {\n size = 101\n sticky = true\n migrate = true\n}\n",
			script: "echo $NOMAD_ALLOC_ID >>$NOMAD_ALLOC_DIR/data/lineage; exec sleep infinity"},
		{id: "web", typ: "service", counts: [2]int{1, 3}, deploys: true, reverts: true, canaries: true, bridge: true, tasks: 1,
			text: steady + fmt.Sprintf(rolling, "canary = 1") +
				"network {\n mode = \"bridge\"\n isolate = true\n port \"any\" {\n to = 8080\n }\n}\n",
			script: `exec perl -e 'use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 9, LocalPort => 8080, ReuseAddr => 1) or die; ` +
				`while (my $c = $s->accept) { print $c "$$\n"; close $c }'`},
		{id: "store", typ: "service", counts: [2]int{2, 2}, deploys: true, reverts: true, volume: true, tasks: 1,
			text: steady + fmt.Sprintf(rolling, "") +
				"volume \"v\" {\n type = \"host\"\n source = \"" + volumeName + "\"\n sticky = true\n}\n",
			script: "echo $NOMAD_ALLOC_ID >>$NOMAD_TASK_DIR/v/starts; exec sleep infinity"},
		{id: "each", typ: "system", counts: [2]int{1, 1}, bridge: true, tasks: 1,
			text: "restart {\n attempts = 20\n interval = \"10m\"\n delay = \"250ms\"\n}\nupdate {\n max_parallel = 0\n}\n" +
				"network {\n mode = \"bridge\"\n isolate = true\n port \"any\" {}\n}\n",
			script: "exec sleep infinity"},
		{id: "wide", typ: "service", counts: [2]int{2, 4}, distinct: true, tasks: 1,
			text: steady + "update {\n max_parallel = 0\n}\n" +
				"migrate {\n max_parallel = 4\n min_healthy_time = \"300ms\"\n health_check = \"task_states\"\n}\n" +
				"constraint {\n distinct_hosts = true\n}\n" +
				"disconnect {\n lost_after = \"1h\"\n replace = true\n}\n",
			script: "exec sleep infinity"},
		{id: "work", typ: "batch", counts: [2]int{2, 2}, finishes: true, tasks: 1,
			text:   strings.Replace(steady, "exponential", "constant", 1),
			script: "exec sleep 3"},
	}
}

// marker is the variable of each task of a history, with its revision.
const marker = "HISTORY_REVISION"

// prelude begins each task. Two runs of one task at a time are seen by the lock.
const prelude = `exec 9>>$NOMAD_ALLOC_DIR/tmp/$NOMAD_TASK_NAME.lock; flock -n 9 || echo $NOMAD_TASK_NAME >>$NOMAD_ALLOC_DIR/tmp/doubled; `

// job returns a version of the job.
func (k kind) job(s spec) (*api.Job, error) {
	var out strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	add("job %q {\n type = %q\n group \"g\" {", k.id, k.typ)
	if k.counts[1] > 0 {
		add("count = %d", s.Count)
	}
	text := k.text
	if s.Fails { // at once, for all times
		text = strings.Replace(text, "attempts = 20", "attempts = 0", 1)
		text = strings.Replace(text, "unlimited = true", "unlimited = false\n attempts = 0", 1)
	}
	add("%s", text)
	port := ""
	if k.bridge {
		port = "port = \"any\"\n"
	}
	service := fmt.Sprintf("service {\n provider = \"nomad\"\n name = %q\n tags = [\"t%d\"]\n %s}\n", k.id, s.Tag, port)
	if !k.inTask {
		add("%s", service)
	}
	for i := range k.tasks {
		script := prelude + k.script
		mount := ""
		switch {
		case s.Fails:
			script = "exit 1"
		case i > 0:
			script = prelude + "exec sleep infinity"
		}
		if k.volume {
			mount = "volume_mount {\n volume = \"v\"\n destination = \"local/v\"\n}"
		}
		add("task %q {\n driver = \"exec2\"\n kill_timeout = \"2s\"\n env {\n %s = \"%d\"\n }", taskName(i), marker, s.Rev)
		add("config {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n }\n %s", strings.ReplaceAll(script, "${", "$${"), mount)
		if i == 0 && k.inTask {
			add("%s", service)
		}
		if i == 0 && s.Schedule != "" {
			w := windows[s.Schedule]
			add("schedule {\n cron {\n start = \"0 %d * * * *\"\n end = \"0 %d\"\n timezone = %q\n }\n }", w[0], w[1], zone(time.Now()))
		}
		add("resources {\n cpu = 10\n memory = 32\n }\n}")
	}
	add("}\n}")
	return jobspec.Parse(jobspec.Config{Filename: k.id, Source: []byte(out.String())})
}

// windows are the hours of the schedules in the time zone where it is six o'clock.
var windows = map[string][2]int{"on": {0, 12}, "off": {12, 0}}

// zone returns the time zone where the hour is six.
func zone(now time.Time) string {
	west := now.UTC().Hour() - 6
	if west > 12 {
		west -= 24
	}
	return fmt.Sprintf("Etc/GMT%+d", west)
}

// taskName returns the name of a task of an allocation.
func taskName(i int) string { return "t" + strconv.Itoa(i) }

// specOf returns what a version of a job asks for.
func specOf(j *api.Job) spec {
	g := j.TaskGroups[0]
	s := spec{Count: *g.Count}
	services := slices.Concat(g.Services, g.Tasks[0].Services)
	s.Tag, _ = strconv.Atoi(strings.TrimPrefix(services[0].Tags[0], "t")) // written by job
	s.Rev, _ = strconv.Atoi(g.Tasks[0].Env[marker])                       // written by job
	s.Fails = strings.Contains(fmt.Sprint(g.Tasks[0].Config["args"]), "exit 1")
	if g.Tasks[0].Schedule != nil {
		s.Schedule = "on"
		if strings.HasPrefix(g.Tasks[0].Schedule.Cron.Start, fmt.Sprintf("0 %d ", windows["off"][0])) {
			s.Schedule = "off"
		}
	}
	return s
}
