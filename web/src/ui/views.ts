/** The views of the page, in the order of the menu. */

import type { App } from "./app";
import { grid } from "./card";
import type { Scope } from "./dom";
import { ask } from "./dialogs";
import { batchPanel } from "./panels/batches";
import { compareView } from "./panels/compare";
import { energyPanel, heatChart, powerChart } from "./panels/energy";
import { annotationsPanel, findingsPanel } from "./panels/findings";
import { figuresPanel, latencyPanels, slowPanel } from "./panels/latency";
import { operatorTable, wherePanel } from "./panels/operators";
import { processPanel } from "./panels/processes";
import { recordingsPanel } from "./panels/recordings";
import {
  arenaPanel,
  coresChart,
  hardwarePanel,
  memoryChart,
  resourceBars,
  sensorsPanel,
  usageChart,
} from "./panels/resources";
import { sessionsPanel } from "./panels/sessions";
import { lossesPanel, machinePanel, provenancePanel } from "./panels/system";
import { selectionPanel, timelinePanel } from "./panels/timeline";

export interface View {
  id: string;
  title: string;
  /** Key that opens it. */
  key: string;
  /** It is about all recordings, not about the source that is open. */
  apart?: boolean;
  mount(scope: Scope, app: App): HTMLElement;
}

export const VIEWS: readonly View[] = [
  {
    id: "overview",
    title: "Overview",
    key: "1",
    mount: (scope, app) => {
      const latency = latencyPanels(scope, app);
      return grid(
        latency.gauges,
        sessionsPanel(scope, app).element,
        wherePanel(scope, app, 7).element,
        findingsPanel(scope, app, { span: 5 }).element,
        latency.overTime.element,
        latency.distribution.element,
        timelinePanel(scope, app, { compact: true }).card.element,
        usageChart(scope, app, 8).element,
        resourceBars(scope, app, 4).element,
      );
    },
  },
  {
    id: "latency",
    title: "Latency",
    key: "2",
    mount: (scope, app) => {
      const latency = latencyPanels(scope, app, { overTime: 12, distribution: 12 });
      latency.overTime.element.classList.add("tall");
      return grid(
        latency.gauges,
        sessionsPanel(scope, app).element,
        latency.overTime.element,
        latency.distribution.element,
        slowPanel(app, latency).element,
        figuresPanel(app, latency).element,
      );
    },
  },
  {
    id: "timeline",
    title: "Timeline",
    key: "3",
    mount: (scope, app) => grid(timelinePanel(scope, app).card.element, selectionPanel(scope, app).element),
  },
  {
    id: "operators",
    title: "Operators",
    key: "4",
    mount: (scope, app) => {
      const { table, limits } = operatorTable(scope, app);
      return grid(limits.element, table.element);
    },
  },
  {
    id: "resources",
    title: "Resources",
    key: "5",
    mount: (scope, app) =>
      grid(
        resourceBars(scope, app, 4).element,
        usageChart(scope, app, 8).element,
        coresChart(scope, app, 6).element,
        memoryChart(scope, app, 6).element,
        arenaPanel(scope, app, 6).element,
        hardwarePanel(scope, app, 6).element,
        sensorsPanel(scope, app, 12).element,
      ),
  },
  {
    id: "energy",
    title: "Energy",
    key: "6",
    mount: (scope, app) =>
      grid(energyPanel(scope, app).element, powerChart(scope, app, 6).element, heatChart(scope, app, 6).element),
  },
  { id: "batches", title: "Batches", key: "7", mount: (scope, app) => grid(batchPanel(scope, app).element) },
  { id: "processes", title: "Processes", key: "8", mount: (scope, app) => grid(processPanel(scope, app).element) },
  {
    id: "findings",
    title: "Findings",
    key: "9",
    mount: (scope, app) =>
      grid(findingsPanel(scope, app, { full: true }).element, annotationsPanel(scope, app).element),
  },
  {
    id: "system",
    title: "System",
    key: "0",
    mount: (scope, app) =>
      grid(machinePanel(scope, app).element, provenancePanel(scope, app).element, lossesPanel(scope, app).element),
  },
  {
    id: "recordings",
    title: "Recordings",
    key: "R",
    apart: true,
    mount: (scope, app) => grid(recordingsPanel(scope, app, ask).element),
  },
  { id: "compare", title: "Compare", key: "C", apart: true, mount: (scope, app) => compareView(scope, app) },
];
