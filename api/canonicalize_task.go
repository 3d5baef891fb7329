package api

import (
	"path"
	"strings"
	"time"
)

const defaultCheckGrace = time.Second

// Canonicalize sets the defaults of a task. The group's own fields are already canonical.
func (t *Task) Canonicalize(g *TaskGroup, job *Job) {
	if t.Resources == nil {
		t.Resources = &Resources{}
	}
	t.Resources.Canonicalize()
	orDefault(&t.KillTimeout, 5*time.Second)
	if t.LogConfig == nil {
		t.LogConfig = &LogConfig{}
	}
	t.LogConfig.canonicalize()
	if t.RestartPolicy == nil {
		t.RestartPolicy = &RestartPolicy{}
	}
	t.RestartPolicy.canonicalize(g.RestartPolicy)
	if t.Lifecycle != nil && *t.Lifecycle == (TaskLifecycle{}) {
		t.Lifecycle = nil
	}
	canonicalizeConstraints(t.Constraints)
	canonicalizeAffinities(t.Affinities)
	for _, a := range t.Artifacts {
		a.canonicalize()
	}
	for _, tmpl := range t.Templates {
		tmpl.canonicalize()
	}
	for _, v := range t.VolumeMounts {
		v.canonicalize()
	}
	for _, s := range t.Services {
		s.canonicalize(*job.Name + "-" + *g.Name + "-" + t.Name)
	}
	if t.Vault != nil {
		t.Vault.canonicalize()
	}
	if t.Consul != nil {
		orEmpty(&t.Consul.Cluster, "default")
	}
	if t.CSIPluginConfig != nil {
		t.CSIPluginConfig.canonicalize()
	}
	for _, p := range t.ScalingPolicies {
		p.canonicalize(0)
	}
	if t.DispatchPayload != nil && t.DispatchPayload.File == "" {
		t.DispatchPayload = nil
	}
}

// Canonicalize sets the defaults of resources.
func (r *Resources) Canonicalize() {
	orDefault(&r.Cores, 0)
	if *r.Cores == 0 {
		orDefault(&r.CPU, 100)
	}
	orDefault(&r.CPU, 0)
	orDefault(&r.MemoryMB, 300)
	for _, d := range r.Devices {
		orDefault(&d.Count, 1)
		canonicalizeConstraints(d.Constraints)
		canonicalizeAffinities(d.Affinities)
	}
	if r.NUMA != nil {
		orEmpty(&r.NUMA.Affinity, "none")
	}
}

func (l *LogConfig) canonicalize() {
	orDefault(&l.MaxFiles, 10)
	orDefault(&l.MaxFileSizeMB, 10)
	orDefault(&l.Disabled, false)
}

func (a *TaskArtifact) canonicalize() {
	orDefault(&a.GetterSource, "")
	orDefault(&a.GetterMode, "any")
	orDefault(&a.GetterInsecure, false)
	if a.RelativeDest == nil {
		a.RelativeDest = new("local/")
		if *a.GetterMode == "file" {
			source, _, _ := strings.Cut(*a.GetterSource, "?")
			a.RelativeDest = new("local/" + path.Base(source))
		}
	}
}

func (t *Template) canonicalize() {
	orDefault(&t.SourcePath, "")
	orDefault(&t.DestPath, "")
	orDefault(&t.EmbeddedTmpl, "")
	orDefault(&t.ChangeMode, "restart")
	signal := ""
	if *t.ChangeMode == "signal" {
		signal = "SIGHUP"
	}
	orDefault(&t.ChangeSignal, signal)
	t.ChangeSignal = new(strings.ToUpper(*t.ChangeSignal))
	orDefault(&t.Once, false)
	orDefault(&t.Splay, 5*time.Second)
	orDefault(&t.Perms, "0644")
	orDefault(&t.LeftDelim, "{{")
	orDefault(&t.RightDelim, "}}")
	orDefault(&t.Envvars, false)
	orDefault(&t.VaultGrace, 0)
	orDefault(&t.ErrMissingKey, false)
	if c := t.ChangeScript; c != nil {
		orDefault(&c.Command, "")
		orDefault(&c.Timeout, 5*time.Second)
		orDefault(&c.FailOnError, false)
		orDefault(&c.RunOnFirstRender, false)
		if c.Args == nil {
			c.Args = []string{}
		}
	}
}

func (v *VolumeMount) canonicalize() {
	orDefault(&v.ReadOnly, false)
	orDefault(&v.PropagationMode, VolumeMountPropagationPrivate)
	orDefault(&v.SELinuxLabel, "")
}

func (v *Vault) canonicalize() {
	orDefault(&v.Namespace, "")
	orEmpty(&v.Cluster, "default")
	orDefault(&v.Env, true)
	orDefault(&v.DisableFile, false)
	orDefault(&v.ChangeMode, "restart")
	orDefault(&v.ChangeSignal, "SIGHUP")
	orDefault(&v.AllowTokenExpiration, false)
}

func (c *TaskCSIPluginConfig) canonicalize() {
	orEmpty(&c.MountDir, "/csi")
	orEmpty(&c.StagePublishBaseDir, "/local/csi")
	if c.HealthTimeout == 0 {
		c.HealthTimeout = 30 * time.Second
	}
}
