package api

// Canonicalize sets the defaults of a group. The job's own fields are already canonical.
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

// canonicalizeCount sets an unset count to scaling.min, or an unset scaling.min to count.
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

// canonicalizePolicies sets the restart, reschedule, update, migrate and disconnect blocks.
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

// canonicalize sets the defaults of a service. The default name is made of the names of
// the job, the group and the task.
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

// canonicalizeRestart sets unset fields from the service's check_restart block.
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

// canonicalize copies the older fields of the expose block to the current ones.
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
