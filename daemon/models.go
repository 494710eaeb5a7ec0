package daemon

import (
	"errors"
	"net/http"
	"time"

	"crabmem/daemon/config"
	"crabmem/daemon/errtable"
	"crabmem/daemon/model"
	"crabmem/daemon/wire/pb"
)

// listModels responds with the list of models. So do the requests that change
// the list. Changes last until the daemon ends or reloads.
func (d *Daemon) listModels(r *request) error {
	s := d.setup()
	list := &pb.ModelList{Active: s.models.Active()}
	for _, m := range s.models.Models() {
		info := &pb.ModelInfo{Name: m.Name, Provider: m.Provider, Kind: m.Kind, ContextLimit: uint64(m.ContextLimit), Active: m.Active}
		if m.Name == config.Offline {
			info.Kind = config.Offline
		}
		for _, p := range s.config.Providers {
			if p.Name == m.Provider {
				info.BaseUrl, info.Fallback = p.BaseURL, p.Fallback
			}
		}
		list.Models = append(list.Models, info)
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Models{Models: list}})
}

func (d *Daemon) switchModel(r *request, m *pb.SwitchModelMsg) error {
	if err := d.setup().models.Switch(m.GetModel()); err != nil {
		return unknownModel(err)
	}
	return d.listModels(r)
}

func unknownModel(err error) error {
	return &errtable.Error{HTTP: http.StatusNotFound, Kind: "unknown_model", Message: err.Error(), Fix: "run crabmem models list to see the models"}
}

func (d *Daemon) addModels(r *request, m *pb.AddModelsMsg) error {
	p := model.Provider{
		Name: m.Provider, Kind: m.Kind, BaseURL: m.BaseUrl, APIKey: m.ApiKey, APIVersion: m.ApiVersion, Region: m.Region,
		AccessKey: m.AccessKey, SecretKey: m.SecretKey, Models: m.Models,
		Timeout: time.Duration(m.TimeoutMs) * time.Millisecond, IdleTimeout: time.Duration(m.IdleTimeoutMs) * time.Millisecond,
		Fallback: m.Fallback,
	}
	if m.MaxRetries != nil {
		n := int(*m.MaxRetries)
		p.MaxRetries = &n
	}
	if len(m.ContextLimits) > 0 {
		p.ContextLimits = make(map[string]int, len(m.ContextLimits))
		for name, n := range m.ContextLimits {
			p.ContextLimits[name] = int(min(n, 1<<30))
		}
	}
	if err := d.setup().models.Add(p); err != nil {
		return errtable.Invalidf("%v", err)
	}
	return d.listModels(r)
}

func (d *Daemon) removeModel(r *request, m *pb.RemoveModelMsg) error {
	switch err := d.setup().models.Remove(m.GetModel()); {
	case errors.Is(err, model.ErrUnknownModel):
		return unknownModel(err)
	case err != nil:
		return &errtable.Error{HTTP: http.StatusConflict, Kind: "in_use", Message: err.Error(), Fix: "run crabmem models switch to select another model"}
	}
	return d.listModels(r)
}

func (d *Daemon) listAgents(r *request) error {
	s := d.setup()
	list := &pb.AgentList{}
	for _, a := range s.config.Agents {
		built := s.agents[a.Name]
		info := &pb.AgentInfo{
			Name: a.Name, Description: a.Description, Model: built.Model, Skills: a.Skills, Mcps: a.MCPs, Members: a.Members,
			Scoped: built.Scope.Confined, Memory: built.Memory, SkillTags: a.SkillTags,
		}
		for _, t := range s.runner.Tools.Schemas(built.Scope) {
			info.Tools = append(info.Tools, t.Name)
		}
		list.Agents = append(list.Agents, info)
	}
	return r.send(&pb.ServerMessage{Msg: &pb.ServerMessage_Agents{Agents: list}})
}
