package api

// Canonicalize fills in the defaults of a group of the job, which has its own
// defaults already.
func (g *TaskGroup) Canonicalize(job *Job) {
	orDefault(&g.Name, "")
	g.canonicalizeCount()
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &EphemeralDisk{}
	}
	orDefault(&g.EphemeralDisk.Sticky, false)
	orDefault(&g.EphemeralDisk.Migrate, false)
	orDefault(&g.EphemeralDisk.SizeMB, 300)
	g.canonicalizePolicies(job)
	if g.Consul != nil {
		orEmpty(&g.Consul.Namespace, *job.ConsulNamespace)
		orEmpty(&g.Consul.Cluster, "default")
	}
	canonicalizeConstraints(g.Constraints)
	canonicalizeAffinities(g.Affinities)
	canonicalizeSpreads(g.Spreads)
	for name, v := range g.Volumes {
		orEmpty(&v.Name, name)
	}
	for _, s := range g.Services {
		s.canonicalize(*job.Name + "-" + *g.Name)
	}
	for _, t := range g.Tasks {
		t.Canonicalize(g, job)
	}
}

// canonicalizeCount makes count and scaling agree: a count that was not given is
// the least that scaling allows, and the other way round.
func (g *TaskGroup) canonicalizeCount() {
	if g.Scaling != nil && g.Count == nil && g.Scaling.Min != nil {
		g.Count = new(int(*g.Scaling.Min))
	}
	orDefault(&g.Count, 1)
	if g.Scaling != nil {
		orEmpty(&g.Scaling.Type, "horizontal")
		g.Scaling.canonicalize(int64(*g.Count))
	}
}

func (p *ScalingPolicy) canonicalize(minimum int64) {
	orDefault(&p.Min, minimum)
	orDefault(&p.Enabled, true)
}

// canonicalizePolicies fills in restart, reschedule, update, migrate and disconnect.
func (g *TaskGroup) canonicalizePolicies(job *Job) {
	if g.RestartPolicy == nil {
		g.RestartPolicy = &RestartPolicy{}
	}
	g.RestartPolicy.canonicalize(restartDefaults(*job.Type))
	switch *job.Type {
	case JobTypeService, JobTypeBatch:
		if g.ReschedulePolicy == nil {
			g.ReschedulePolicy = &ReschedulePolicy{}
		}
	default:
		if g.ReschedulePolicy == nil && job.Reschedule != nil {
			g.ReschedulePolicy = &ReschedulePolicy{}
		}
	}
	if g.ReschedulePolicy != nil {
		g.ReschedulePolicy.canonicalize(job.Reschedule, *job.Type)
	}
	if g.Update == nil && job.Update != nil {
		g.Update = &UpdateStrategy{}
	}
	if g.Update != nil {
		g.Update.canonicalize(job.Update)
	}
	if g.Migrate == nil && (job.Migrate != nil || *job.Type == JobTypeService) {
		g.Migrate = &MigrateStrategy{}
	}
	if g.Migrate != nil {
		g.Migrate.canonicalize(job.Migrate)
	}
	if g.Disconnect != nil {
		orDefault(&g.Disconnect.Replace, true)
		orDefault(&g.Disconnect.Reconcile, ReconcileOptionBestScore)
	}
}

// canonicalize fills in the defaults of a service; a name that was not given is
// made of the job's, the group's and the task's.
func (s *Service) canonicalize(name string) {
	orEmpty(&s.Name, name)
	orEmpty(&s.AddressMode, "auto")
	orEmpty(&s.OnUpdate, OnUpdateRequireHealthy)
	orEmpty(&s.Provider, ServiceProviderConsul)
	orEmpty(&s.Cluster, "default")
	if s.Connect != nil {
		s.Connect.canonicalize()
	}
	if w := s.Weights; w != nil {
		w.Passing, w.Warning = max(w.Passing, 1), max(w.Warning, 1)
	}
	for i := range s.Checks {
		c := &s.Checks[i]
		c.canonicalizeRestart(s.CheckRestart)
		c.SuccessBeforePassing = max(c.SuccessBeforePassing, 0)
		c.FailuresBeforeCritical, c.FailuresBeforeWarning = max(c.FailuresBeforeCritical, 0), max(c.FailuresBeforeWarning, 0)
		orEmpty(&c.OnUpdate, s.OnUpdate)
	}
}

// canonicalizeRestart fills in what the service says.
func (c *ServiceCheck) canonicalizeRestart(service *CheckRestart) {
	switch {
	case c.CheckRestart == nil && service == nil:
		return
	case c.CheckRestart == nil:
		c.CheckRestart = new(*service)
	case service != nil:
		if c.CheckRestart.Limit <= 0 {
			c.CheckRestart.Limit = service.Limit
		}
		if c.CheckRestart.Grace == nil {
			c.CheckRestart.Grace = service.Grace
		}
		c.CheckRestart.IgnoreWarnings = c.CheckRestart.IgnoreWarnings || service.IgnoreWarnings
	}
	orDefault(&c.CheckRestart.Grace, defaultCheckGrace)
}

// canonicalize gives the older names of the expose block their place.
func (c *ConsulConnect) canonicalize() {
	if c.SidecarService == nil || c.SidecarService.Proxy == nil {
		return
	}
	p := c.SidecarService.Proxy
	if p.Expose == nil {
		p.Expose = p.ExposeConfig
	}
	p.ExposeConfig = nil
	if p.Expose != nil && p.Expose.Paths == nil {
		p.Expose.Paths, p.Expose.Path = p.Expose.Path, nil
	}
}
