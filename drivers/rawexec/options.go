package rawexec

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var configSpec = hcldec.ObjectSpec{
	"enabled":          &hcldec.AttrSpec{Name: "enabled", Type: cty.Bool},
	"denied_host_uids": &hcldec.AttrSpec{Name: "denied_host_uids", Type: cty.String},
	"denied_host_gids": &hcldec.AttrSpec{Name: "denied_host_gids", Type: cty.String},
	"denied_envvars":   &hcldec.AttrSpec{Name: "denied_envvars", Type: cty.List(cty.String)},

	drivers.LegacyOption: &hcldec.AttrSpec{Name: drivers.LegacyOption, Type: cty.Bool},
}

var taskSpec = hcldec.ObjectSpec{
	"command":            &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":               &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"cgroup_v2_override": &hcldec.AttrSpec{Name: "cgroup_v2_override", Type: cty.String},
	"cgroup_v1_override": &hcldec.AttrSpec{Name: "cgroup_v1_override", Type: cty.List(cty.Map(cty.String))},
	"oom_score_adj":      &hcldec.AttrSpec{Name: "oom_score_adj", Type: cty.Number},
	"work_dir":           &hcldec.AttrSpec{Name: "work_dir", Type: cty.String},
	"denied_envvars":     &hcldec.AttrSpec{Name: "denied_envvars", Type: cty.List(cty.String)},
}

// settings is the decoded plugin block.
type settings struct {
	enabled    bool
	legacy     bool // tasks need no privileged = true
	deniedUIDs hostuser.Ranges
	deniedGIDs hostuser.Ranges
	deniedEnv  []string
}

func decodeSettings(v cty.Value) (settings, error) {
	f := drivers.Fields{Value: v}
	s := settings{enabled: f.Bool("enabled"), legacy: f.Bool(drivers.LegacyOption), deniedEnv: f.Strings("denied_envvars")}
	uids, gids := f.String("denied_host_uids"), f.String("denied_host_gids")
	if err := f.Err(); err != nil {
		return s, err
	}
	var err error
	if s.deniedUIDs, err = hostuser.ParseRanges(uids); err != nil {
		return s, fmt.Errorf("denied_host_uids: %w", err)
	}
	if s.deniedGIDs, err = hostuser.ParseRanges(gids); err != nil {
		return s, fmt.Errorf("denied_host_gids: %w", err)
	}
	return s, nil
}

// allow refuses a user or a group, also a supplementary one, that the operator denied.
func (s settings) allow(uid uint32, gids []uint32) error {
	if s.deniedUIDs.Has(uid) {
		return fmt.Errorf("running as uid %d is denied on this node (denied_host_uids)", uid)
	}
	for _, gid := range gids {
		if s.deniedGIDs.Has(gid) {
			return fmt.Errorf("running with gid %d is denied on this node (denied_host_gids)", gid)
		}
	}
	return nil
}

// allowAgent is allow for a task that keeps the user and the groups of the agent.
func (s settings) allowAgent() error {
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("read the agent's groups: %w", err)
	}
	gids := []uint32{uint32(os.Getegid())}
	for _, gid := range groups {
		gids = append(gids, uint32(gid))
	}
	return s.allow(uint32(os.Geteuid()), gids)
}

// options is the decoded config block of a task.
type options struct {
	command     string
	args        []string
	workDir     string
	oomScoreAdj int
	deniedEnv   []string
	overrideV2  string            // path of a group
	overrideV1  map[string]string // controller → path of a group
}

func decodeOptions(v cty.Value) (options, error) {
	f := drivers.Fields{Value: v}
	o := options{command: f.String("command"), args: f.Strings("args"), workDir: f.String("work_dir"),
		oomScoreAdj: int(f.Int("oom_score_adj")), deniedEnv: f.Strings("denied_envvars"),
		overrideV2: f.String("cgroup_v2_override"), overrideV1: f.Maps("cgroup_v1_override")}
	if err := f.Err(); err != nil {
		return o, fmt.Errorf("config of %s task: %w", Name, err)
	}
	if o.command == "" {
		return o, fmt.Errorf("config of %s task: command is empty", Name)
	}
	if o.oomScoreAdj < 0 || o.oomScoreAdj > 1000 {
		return o, fmt.Errorf("config of %s task: oom_score_adj %d is not between 0 and 1000", Name, o.oomScoreAdj)
	}
	return o, nil
}
