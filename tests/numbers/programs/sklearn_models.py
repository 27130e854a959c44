# scikit-learn: models, preparation, metrics.
import numpy as np, pandas as pd
from scipy import sparse
from sklearn import calibration, cluster, compose, covariance, cross_decomposition, datasets, decomposition, discriminant_analysis, dummy, ensemble, feature_extraction, feature_selection, gaussian_process, impute, inspection, isotonic, kernel_approximation, kernel_ridge, linear_model, manifold, metrics, mixture, model_selection, multiclass, multioutput, naive_bayes, neighbors, neural_network, pipeline, preprocessing, random_projection, semi_supervised, svm, tree, utils

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 4))
y = (X[:, 0] + X[:, 1] > 0).astype(int)
three = np.arange(80) % 3
target = np.rint(8 * (X * np.arange(4)).sum(1) + 8 * rng.normal(size=80)) / 8  # sums of these are exact: trees break ties by them
blobs = datasets.make_blobs(80, random_state=0, cluster_std=0.6)[0]
mixed = np.column_stack([np.sin(np.arange(80)), np.sign(np.cos(3 * np.arange(80) + 1)), np.arange(80) % 7]) @ [[1, 2, 1], [2, 1, 0], [0, 1, 1]]
counts = rng.poisson(3, (80, 4))
whole = np.arange(80).reshape(40, 2)
large = whole * 10**10
S = sparse.csr_matrix(np.where(X > 0.5, X, 0))
guess = (X[:, 0] > 0).astype(int)
frame = pd.DataFrame({"k": list("abcd") * 20, "g": np.arange(80) % 5, "i": np.arange(80), "v": X[:, 0]})
texts = ["one two two", "two three", "one one one"]
labels = ["b", "a", "b", "c"]


def classes(model, X=X, y=y):
    return model.fit(X, y).predict(X)


def values(model, X=X, y=target):
    return model.fit(X, y).predict(X)


def groups(model, X=X):
    return model.fit_predict(X)


def changed(model, X=X, y=None):
    """Components have no sign of their own."""
    return np.abs(model.fit_transform(X, y))


def folds(splitter, *given):
    return [part for pair in splitter.split(X, *given) for part in pair]


classes(tree.DecisionTreeClassifier(random_state=0))
classes(tree.DecisionTreeClassifier(max_depth=3, random_state=0), y=three)
classes(tree.ExtraTreeClassifier(random_state=0))
classes(tree.DecisionTreeClassifier(max_features=2, random_state=0))
classes(ensemble.RandomForestClassifier(n_estimators=5, random_state=0))
classes(ensemble.RandomForestClassifier(n_estimators=5, random_state=0), S)
classes(ensemble.ExtraTreesClassifier(n_estimators=5, random_state=0))
classes(ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0))
classes(ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0))
classes(ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[0]), np.column_stack([three, X[:, 0]]))
classes(ensemble.AdaBoostClassifier(n_estimators=5, random_state=0))
classes(ensemble.BaggingClassifier(n_estimators=3, random_state=0))
classes(ensemble.VotingClassifier([("a", naive_bayes.GaussianNB()), ("b", tree.DecisionTreeClassifier(random_state=0))]))
classes(ensemble.StackingClassifier([("a", naive_bayes.GaussianNB())], cv=2))
classes(svm.SVC())
classes(svm.SVC(kernel="linear"), S)
classes(svm.SVC(probability=True, random_state=0))
classes(svm.SVC(), y=three)
classes(svm.NuSVC())
classes(svm.LinearSVC(random_state=0))
classes(linear_model.LogisticRegression())
classes(linear_model.LogisticRegression(), y=three)
classes(linear_model.LogisticRegression(), S)
classes(linear_model.LogisticRegression(solver="saga", max_iter=300, random_state=0))
classes(linear_model.LogisticRegression(solver="liblinear"))
classes(linear_model.LogisticRegressionCV(cv=2, Cs=2))
classes(linear_model.SGDClassifier(random_state=0))
classes(linear_model.SGDClassifier(random_state=0), S)
classes(linear_model.Perceptron(random_state=0))
classes(linear_model.PassiveAggressiveClassifier(random_state=0))
classes(linear_model.RidgeClassifier())
classes(neighbors.KNeighborsClassifier())
classes(neighbors.KNeighborsClassifier(algorithm="ball_tree"))
classes(neighbors.KNeighborsClassifier(algorithm="kd_tree", weights="distance"), y=three)
classes(neighbors.KNeighborsClassifier(algorithm="brute"), S)
classes(neighbors.RadiusNeighborsClassifier(radius=5))
classes(neighbors.NearestCentroid())
classes(naive_bayes.GaussianNB())
classes(naive_bayes.MultinomialNB(), counts)
classes(naive_bayes.ComplementNB(), counts)
classes(naive_bayes.BernoulliNB(), counts)
classes(naive_bayes.CategoricalNB(), counts)
classes(neural_network.MLPClassifier(max_iter=10, random_state=0))
classes(discriminant_analysis.LinearDiscriminantAnalysis())
classes(discriminant_analysis.QuadraticDiscriminantAnalysis())
classes(gaussian_process.GaussianProcessClassifier(), X[:30], y[:30])
classes(calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2))
classes(multiclass.OneVsRestClassifier(naive_bayes.GaussianNB()), y=three)
classes(multiclass.OneVsOneClassifier(naive_bayes.GaussianNB()), y=three)
classes(multiclass.OutputCodeClassifier(naive_bayes.GaussianNB(), random_state=0), y=three)
classes(multioutput.MultiOutputClassifier(naive_bayes.GaussianNB()), y=np.column_stack([y, three]))
classes(multioutput.ClassifierChain(naive_bayes.GaussianNB()), y=np.column_stack([y, 1 - y]))
classes(semi_supervised.LabelPropagation(), y=np.where(np.arange(80) < 40, y, -1))
classes(semi_supervised.LabelSpreading(), y=np.where(np.arange(80) < 40, y, -1))
classes(semi_supervised.SelfTrainingClassifier(naive_bayes.GaussianNB()), y=np.where(np.arange(80) < 40, y, -1))
classes(dummy.DummyClassifier(strategy="stratified", random_state=0))
classes(tree.DecisionTreeClassifier(random_state=0), whole, np.arange(40) % 3)
classes(tree.DecisionTreeClassifier(random_state=0), large, np.arange(40) * 10**10)
classes(neighbors.KNeighborsClassifier(1), large, np.arange(40) * 10**10)
classes(naive_bayes.GaussianNB(), whole, np.array(["p", "q"])[np.arange(40) % 2])
classes(svm.SVC(), whole, np.arange(40) % 2)
classes(ensemble.RandomForestClassifier(5, random_state=0), frame[["g", "i"]], frame.k)
values(tree.DecisionTreeRegressor(random_state=0))
values(tree.DecisionTreeRegressor(random_state=0), large, np.arange(40) * 10**10)
values(tree.DecisionTreeRegressor(criterion="absolute_error", random_state=0, max_depth=3))
values(ensemble.RandomForestRegressor(n_estimators=5, random_state=0))
values(ensemble.ExtraTreesRegressor(n_estimators=3, random_state=0))
values(ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0))
values(ensemble.HistGradientBoostingRegressor(max_iter=5, random_state=0))
values(ensemble.HistGradientBoostingRegressor(max_iter=3), whole, np.arange(40))
values(ensemble.AdaBoostRegressor(n_estimators=3, random_state=0))
values(ensemble.BaggingRegressor(n_estimators=3, random_state=0))
values(svm.SVR())
values(svm.LinearSVR(random_state=0))
values(svm.NuSVR())
values(linear_model.LinearRegression())
values(linear_model.LinearRegression(), whole, np.arange(40) * 10**10)
values(linear_model.LinearRegression(positive=True))
values(linear_model.Ridge())
values(linear_model.Ridge(solver="sag", random_state=0))
values(linear_model.Ridge(), S)
values(linear_model.RidgeCV())
values(linear_model.Lasso(alpha=0.1))
values(linear_model.Lasso(alpha=0.01), S)
values(linear_model.LassoCV(cv=3, alphas=5))
values(linear_model.LassoLars(alpha=0.01))
values(linear_model.ElasticNet(alpha=0.1))
values(linear_model.MultiTaskLasso(alpha=0.1), y=np.column_stack([target, -target]))
values(linear_model.Lars())
values(linear_model.OrthogonalMatchingPursuit())
values(linear_model.BayesianRidge())
values(linear_model.ARDRegression())
values(linear_model.SGDRegressor(random_state=0))
values(linear_model.HuberRegressor())
values(linear_model.RANSACRegressor(random_state=0))
values(linear_model.TheilSenRegressor(random_state=0, max_subpopulation=100))
values(linear_model.QuantileRegressor(alpha=0.1))
values(linear_model.PoissonRegressor(), y=counts[:, 0])
values(linear_model.GammaRegressor(), y=counts[:, 0] + 1)
values(linear_model.TweedieRegressor(), y=counts[:, 0])
values(neighbors.KNeighborsRegressor(algorithm="kd_tree"))
values(neighbors.KNeighborsRegressor(1), large, np.arange(40) * 10**10)
values(neighbors.RadiusNeighborsRegressor(radius=5))
values(neural_network.MLPRegressor(max_iter=10, random_state=0))
values(gaussian_process.GaussianProcessRegressor())
values(kernel_ridge.KernelRidge())
values(cross_decomposition.PLSRegression(2))
values(isotonic.IsotonicRegression(), X[:, 0])
values(isotonic.IsotonicRegression(), np.arange(80), np.arange(80)[::-1])
values(multioutput.RegressorChain(linear_model.Ridge()), y=np.column_stack([target, -target]))
values(compose.TransformedTargetRegressor(linear_model.Ridge(), func=np.log1p, inverse_func=np.expm1), y=counts[:, 0])
values(dummy.DummyRegressor(strategy="median"))
groups(cluster.KMeans(3, n_init=2, random_state=0))
groups(cluster.KMeans(2, n_init=1, random_state=0), S)
groups(cluster.KMeans(2, n_init=1, random_state=0), large)
groups(cluster.MiniBatchKMeans(3, n_init=1, random_state=0, batch_size=64))
groups(cluster.BisectingKMeans(3, random_state=0))
groups(cluster.DBSCAN(eps=1.0))
groups(cluster.DBSCAN(eps=3), whole)
groups(cluster.HDBSCAN(copy=True), blobs)
groups(cluster.OPTICS(), blobs)
groups(cluster.AgglomerativeClustering(3))
groups(cluster.AgglomerativeClustering(3, linkage="single"))
groups(cluster.AgglomerativeClustering(3, connectivity=neighbors.kneighbors_graph(X, 8)))
groups(cluster.SpectralClustering(3, random_state=0))
groups(cluster.MeanShift(bandwidth=2))
groups(cluster.Birch(n_clusters=3))
groups(cluster.AffinityPropagation(random_state=0))
groups(mixture.GaussianMixture(2, random_state=0))
groups(mixture.BayesianGaussianMixture(n_components=2, random_state=0))
groups(ensemble.IsolationForest(n_estimators=5, random_state=0))
groups(neighbors.LocalOutlierFactor())
groups(svm.OneClassSVM())
groups(covariance.EllipticEnvelope(random_state=0))
cluster.SpectralCoclustering(2, random_state=0).fit(np.abs(X)).row_labels_
cluster.k_means(X, 2, n_init=1, random_state=0)[1]
cluster.kmeans_plusplus(X, 3, random_state=0)[1]
cluster.ward_tree(X)[0]
cluster.linkage_tree(X)[0]
cluster.cluster_optics_dbscan(reachability=np.ones(3), core_distances=np.ones(3), ordering=np.arange(3), eps=2)
cluster.estimate_bandwidth(X, random_state=0)
changed(cluster.FeatureAgglomeration(2))
changed(decomposition.PCA(2))
changed(decomposition.PCA(2, svd_solver="randomized", random_state=0))
changed(decomposition.IncrementalPCA(2, batch_size=20))
changed(decomposition.KernelPCA(2, kernel="rbf"))
changed(decomposition.SparsePCA(2, random_state=0, max_iter=5))
changed(decomposition.TruncatedSVD(2, random_state=0), S)
changed(decomposition.NMF(2, random_state=0), np.abs(X))
changed(decomposition.FastICA(3, random_state=0), mixed)
changed(decomposition.FactorAnalysis(2, random_state=0))
changed(decomposition.LatentDirichletAllocation(2, max_iter=2, random_state=0), counts)
changed(decomposition.DictionaryLearning(2, max_iter=3, random_state=0))
changed(manifold.Isomap())
changed(manifold.MDS(n_init=1, max_iter=5, random_state=0)).shape
changed(manifold.SpectralEmbedding(random_state=0))
changed(manifold.LocallyLinearEmbedding(random_state=0))
changed(manifold.TSNE(max_iter=250, perplexity=5, random_state=0), X[:30]).shape
changed(random_projection.GaussianRandomProjection(2, random_state=0))
changed(random_projection.SparseRandomProjection(2, random_state=0))
random_projection.johnson_lindenstrauss_min_dim(np.array([100, 10**10]))
changed(kernel_approximation.RBFSampler(random_state=0, n_components=3))
changed(kernel_approximation.Nystroem(n_components=3, random_state=0))
changed(neighbors.NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=5), X, y)
changed(neural_network.BernoulliRBM(2, random_state=0, n_iter=2), np.abs(X) / 5)
changed(preprocessing.StandardScaler())
changed(preprocessing.StandardScaler(), large)
preprocessing.StandardScaler(with_mean=False).fit_transform(S)
changed(preprocessing.MinMaxScaler(), large)
changed(preprocessing.RobustScaler())
changed(preprocessing.KBinsDiscretizer(3, encode="ordinal"))
preprocessing.KBinsDiscretizer(3, strategy="kmeans").fit_transform(X)
changed(preprocessing.PolynomialFeatures(), large)
preprocessing.PolynomialFeatures(3).fit_transform(whole[-2:] * 100000)
preprocessing.PolynomialFeatures().fit_transform(S)
changed(preprocessing.QuantileTransformer(n_quantiles=10))
changed(preprocessing.PowerTransformer())
changed(preprocessing.SplineTransformer())
changed(preprocessing.Normalizer())
preprocessing.Binarizer(threshold=10**10).fit_transform(large)
preprocessing.FunctionTransformer(np.log1p).fit_transform(whole)
preprocessing.LabelEncoder().fit_transform(labels)
preprocessing.LabelEncoder().fit_transform([2**40, 5, 2**40])
preprocessing.LabelEncoder().fit(labels).inverse_transform([0, 2])
preprocessing.OrdinalEncoder().fit_transform(frame[["k", "g"]])
preprocessing.OrdinalEncoder(dtype=int).fit_transform([["a"], ["b"]])
preprocessing.OneHotEncoder().fit_transform(frame[["k", "g"]])
preprocessing.OneHotEncoder(sparse_output=False, dtype=int).fit_transform([[1], [2**40]])
preprocessing.OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist").fit_transform([["a"], ["a"], ["b"]]).toarray()
preprocessing.LabelBinarizer().fit_transform(labels)
preprocessing.LabelBinarizer(sparse_output=True).fit_transform([1, 2, 3])
preprocessing.label_binarize([0, 1, 2], classes=[0, 1, 2])
preprocessing.MultiLabelBinarizer().fit_transform([[1, 2], [3]])
preprocessing.TargetEncoder(random_state=0).fit_transform([["a"]] * 10 + [["b"]] * 10, [0, 1] * 10)
preprocessing.add_dummy_feature(whole[:2])
preprocessing.scale(np.arange(5) * 10**10)
impute.SimpleImputer().fit_transform([[1, 2], [np.nan, 3]])
impute.SimpleImputer(missing_values=0, strategy="most_frequent").fit_transform([[1, 2], [0, 2]])
impute.KNNImputer().fit_transform([[1, 2], [np.nan, 3], [4, 5]])
impute.MissingIndicator().fit_transform([[1, 2], [np.nan, 3]])
feature_extraction.text.CountVectorizer().fit_transform(texts)
feature_extraction.text.CountVectorizer(ngram_range=(1, 2)).fit(texts).vocabulary_["two two"]
feature_extraction.text.CountVectorizer().fit_transform(texts).sum() * 10**10
feature_extraction.text.TfidfVectorizer().fit_transform(texts)
feature_extraction.text.HashingVectorizer(n_features=8).fit_transform(texts)
feature_extraction.DictVectorizer().fit_transform([{"a": 1, "b": 2**40}])
feature_extraction.DictVectorizer(dtype=int, sparse=False).fit_transform([{"a": 1, "b": 2**40}])
feature_extraction.FeatureHasher(4).fit_transform([{"a": 1}])
feature_extraction.image.extract_patches_2d(np.arange(16).reshape(4, 4), (2, 2)).sum()
feature_extraction.image.grid_to_graph(2, 2)
feature_extraction.image.img_to_graph(np.arange(4).reshape(2, 2))
feature_selection.SelectKBest(k=2).fit(X, y).get_support(indices=True)
feature_selection.chi2(counts, y)[0]
feature_selection.f_classif(whole, np.arange(40) % 2)[0]
feature_selection.mutual_info_classif(counts, y, discrete_features=True)
feature_selection.mutual_info_regression(X, target, random_state=0)
feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=2).fit(X, y).ranking_
feature_selection.RFECV(linear_model.LogisticRegression(), cv=2).fit(X, y).n_features_
feature_selection.SelectFromModel(linear_model.Lasso(0.5)).fit(X, target).get_support()
feature_selection.VarianceThreshold().fit_transform(whole * [1, 0])
feature_selection.SequentialFeatureSelector(linear_model.Ridge(), n_features_to_select=1, cv=2).fit(X, target).get_support()
metrics.confusion_matrix(y, guess)
metrics.confusion_matrix(y, guess) * 10**10
metrics.confusion_matrix(y, guess, sample_weight=np.arange(80))
metrics.multilabel_confusion_matrix(y, guess)
metrics.accuracy_score(y, guess)
metrics.accuracy_score(y, guess, normalize=False)
metrics.balanced_accuracy_score(y, guess)
metrics.top_k_accuracy_score(three, np.eye(3)[three], k=1)
metrics.precision_recall_fscore_support(y, guess)
metrics.f1_score(y, guess)
metrics.f1_score(three, three[::-1], average="weighted")
metrics.classification_report(y, guess)
metrics.roc_auc_score(y, X[:, 0])
metrics.roc_auc_score(three, np.eye(3)[three], multi_class="ovr")
metrics.roc_curve(y, guess)
metrics.precision_recall_curve(y, X[:, 0])[0][:3]
metrics.average_precision_score(y, X[:, 0])
metrics.det_curve(y, X[:, 0])[0][:2]
metrics.auc(np.arange(3), np.arange(3))
metrics.log_loss(y, np.clip(guess, 0.1, 0.9))
metrics.brier_score_loss(y, np.clip(guess, 0.1, 0.9))
metrics.cohen_kappa_score(y, guess)
metrics.matthews_corrcoef(y, guess)
metrics.hamming_loss(y, guess)
metrics.jaccard_score(y, guess)
metrics.hinge_loss(y, X[:, 0])
metrics.zero_one_loss(y, guess, normalize=False)
metrics.fbeta_score(y, guess, beta=2)
metrics.class_likelihood_ratios(y, guess)
metrics.adjusted_rand_score(y, guess)
metrics.rand_score(y, guess)
metrics.pair_confusion_matrix(y, guess)
metrics.mutual_info_score(y, guess)
metrics.adjusted_mutual_info_score(y, guess)
metrics.normalized_mutual_info_score(y, guess)
metrics.fowlkes_mallows_score(y, guess)
metrics.homogeneity_completeness_v_measure(y, guess)
metrics.cluster.contingency_matrix(y, guess)
metrics.cluster.contingency_matrix(y, guess, sparse=True)
metrics.silhouette_score(X, y)
metrics.silhouette_samples(X, y)
metrics.calinski_harabasz_score(X, y)
metrics.davies_bouldin_score(X, y)
metrics.consensus_score((np.ones((1, 3), bool), np.ones((1, 3), bool)), (np.ones((1, 3), bool), np.ones((1, 3), bool)))
metrics.mean_squared_error([0, 70000], [70000, 0])
metrics.mean_squared_error(np.arange(5) * 10**6, np.zeros(5, int))
metrics.root_mean_squared_error([0, 70000], [70000, 0])
metrics.mean_absolute_error([0, 2**40], [5, 5])
metrics.median_absolute_error([0, 2**40], [5, 5])
metrics.mean_absolute_percentage_error([1, 2], [2, 2])
metrics.mean_squared_log_error([1, 2**40], [2, 3])
metrics.mean_poisson_deviance([1, 2], [2, 3])
metrics.mean_tweedie_deviance([1, 2], [2, 3], power=1.5)
metrics.mean_pinball_loss([1, 2], [2, 3])
metrics.r2_score([1, 100000, 3], [2, 100000, 5])
metrics.explained_variance_score([1, 2, 4], [1, 2, 3])
metrics.max_error([1, 2**40], [2, 3])
metrics.d2_absolute_error_score([1, 2, 4], [1, 2, 3])
metrics.ndcg_score([[1, 2, 3]], [[0.1, 0.2, 0.3]])
metrics.dcg_score([[1, 2, 3]], [[0.1, 0.2, 0.3]])
metrics.label_ranking_loss([[1, 0, 1]], [[0.1, 0.2, 0.3]])
metrics.label_ranking_average_precision_score([[1, 0, 1]], [[0.1, 0.2, 0.3]])
metrics.coverage_error([[1, 0, 1]], [[0.1, 0.2, 0.3]])
metrics.pairwise_distances(whole[:3])
metrics.pairwise_distances(large[:3], metric="manhattan")
metrics.pairwise_distances(X[:3], metric="cosine")
metrics.pairwise_distances_argmin(X, X[:3])
metrics.pairwise_distances_argmin_min(X, X[:3])[0]
metrics.pairwise.euclidean_distances(large[:2])
metrics.pairwise.euclidean_distances(S[:3])
metrics.pairwise.rbf_kernel(X[:2])
metrics.pairwise.polynomial_kernel(whole[:2] * 10**5)
metrics.pairwise.linear_kernel(whole[-2:] * 10**5)
metrics.pairwise.manhattan_distances(S[:2])
metrics.pairwise.haversine_distances([[0, 1], [1, 0]])
metrics.pairwise.nan_euclidean_distances([[1, np.nan], [3, 4]])
metrics.pairwise.chi2_kernel(counts[:2])
metrics.DistanceMetric.get_metric("euclidean").pairwise(whole[:2])
model_selection.train_test_split(np.arange(10), random_state=0)
model_selection.train_test_split(frame, y, stratify=y, test_size=0.1, random_state=0)[1].i
folds(model_selection.KFold(3))
folds(model_selection.KFold(3, shuffle=True, random_state=0))
folds(model_selection.StratifiedKFold(3, shuffle=True, random_state=0), y)
folds(model_selection.GroupKFold(3), y, np.arange(80) % 5)
folds(model_selection.StratifiedGroupKFold(2), y, np.arange(80) % 5)
folds(model_selection.ShuffleSplit(2, random_state=0))
folds(model_selection.StratifiedShuffleSplit(2, random_state=0), y)
folds(model_selection.GroupShuffleSplit(2, random_state=0), y, np.arange(80) % 5)
folds(model_selection.TimeSeriesSplit(3))
folds(model_selection.LeavePOut(2))[1]
folds(model_selection.LeaveOneGroupOut(), y, three)[0]
folds(model_selection.RepeatedKFold(n_splits=2, n_repeats=2, random_state=0))
folds(model_selection.PredefinedSplit(three))
model_selection.cross_val_score(linear_model.LogisticRegression(), X, y, cv=3)
model_selection.cross_val_predict(linear_model.LogisticRegression(), X, y, cv=3)
model_selection.cross_validate(linear_model.Ridge(), X, target, cv=2)["test_score"]
model_selection.GridSearchCV(svm.SVC(), {"C": [0.1, 1, 10]}, cv=2).fit(X, y).best_params_
model_selection.GridSearchCV(tree.DecisionTreeClassifier(random_state=0), {"max_depth": np.arange(1, 4)}, cv=2).fit(X, y).best_index_
model_selection.RandomizedSearchCV(svm.SVC(), {"C": [0.1, 1, 10]}, n_iter=2, cv=2, random_state=0).fit(X, y).best_params_
model_selection.learning_curve(naive_bayes.GaussianNB(), X, y, cv=2, train_sizes=[0.5, 1.0])[0]
model_selection.validation_curve(tree.DecisionTreeClassifier(random_state=0), X, y, param_name="max_depth", param_range=np.array([1, 2]), cv=2)[1]
model_selection.permutation_test_score(naive_bayes.GaussianNB(), X, y, cv=2, n_permutations=3, random_state=0)[1]
list(model_selection.ParameterSampler({"a": np.arange(10)}, 3, random_state=0))
list(model_selection.ParameterGrid({"a": np.arange(2)}))
pipeline.make_pipeline(preprocessing.StandardScaler(), svm.SVC()).fit(X, y).score(X, y)
values(pipeline.make_pipeline(compose.make_column_transformer((preprocessing.OneHotEncoder(), ["k", "g"]), remainder="passthrough"), linear_model.Ridge()), frame[["k", "g", "i"]], frame.v)
pipeline.make_union(decomposition.PCA(1), preprocessing.StandardScaler()).fit_transform(X).shape
compose.ColumnTransformer([("a", "passthrough", np.array([0, 2]))]).fit_transform(X)[:2]
tree.export_text(tree.DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y))
tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).apply(X)
tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).decision_path(X)
tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).tree_.children_left
tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).tree_.n_node_samples
tree.DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y).cost_complexity_pruning_path(X, y).impurities
tree.DecisionTreeClassifier(random_state=0).fit([[1], [2], [3]], [1, 2, 3], sample_weight=[1, 1, 2]).predict([[2]])
tree.DecisionTreeClassifier(class_weight={0: 1, 1: 10}, random_state=0).fit(X, y).feature_importances_
ensemble.RandomForestClassifier(3, random_state=0, oob_score=True).fit(X, y).oob_score_
ensemble.RandomTreesEmbedding(2, max_depth=2, random_state=0).fit_transform(X).sum()
ensemble.RandomForestClassifier(3, random_state=0).fit(X, y).predict_proba(X)[:3]
svm.SVC().fit(X, y).n_support_
svm.SVC().fit(X, y).support_
svm.SVC(kernel="linear").fit(S, y).n_support_
linear_model.LogisticRegression().fit(X, y).n_iter_
linear_model.LogisticRegression().fit(X, y).classes_
linear_model.lasso_path(X, target, n_alphas=4)[1][0]
linear_model.lars_path(X, target)[1]
linear_model.enet_path(X, target, n_alphas=3)[0]
neighbors.KDTree(X).query(X[:2], 3)
neighbors.KDTree(X).two_point_correlation(X, [1.0, 2.0])
neighbors.KDTree(np.zeros((50000, 1))).two_point_correlation(np.zeros((50000, 1)), [1.0])
neighbors.BallTree(np.zeros((50000, 1))).two_point_correlation(np.arange(60000)[:, None], [10, 10**6])
neighbors.KDTree(whole).query(whole[:2], 2)[1]
neighbors.BallTree(X).query_radius(X[:2], 2.0)[0]
neighbors.BallTree(X).query_radius(X[:2], 2.0, count_only=True)
neighbors.NearestNeighbors(n_neighbors=3).fit(X).kneighbors(X[:3])[1]
neighbors.NearestNeighbors(n_neighbors=3).fit(X).kneighbors_graph(X)
neighbors.NearestNeighbors(radius=1.0).fit(X).radius_neighbors_graph(X).nnz
neighbors.NearestNeighbors(n_neighbors=1, metric="manhattan").fit(large).kneighbors(large[:2])
neighbors.kneighbors_graph(whole, 2)
neighbors.KernelDensity().fit(X).score_samples(X[:3])
neighbors.KernelDensity().fit(X).sample(2, random_state=0)
covariance.LedoitWolf().fit(X).shrinkage_
covariance.GraphicalLasso().fit(X).precision_
covariance.MinCovDet(random_state=0).fit(X).location_
cross_decomposition.CCA(1).fit(X[:, :2], X[:, 2:]).n_iter_
inspection.permutation_importance(linear_model.Ridge().fit(X, target), X, target, n_repeats=2, random_state=0).importances_mean
inspection.partial_dependence(linear_model.Ridge().fit(X, target), X, [0], grid_resolution=4)["average"]
datasets.load_iris().target
datasets.load_digits().data.sum()
datasets.load_digits().target
datasets.load_wine().target
datasets.load_breast_cancer().target.sum()
datasets.load_diabetes().target.sum()
datasets.make_blobs(10, random_state=0)
datasets.make_moons(10, random_state=0)[1]
datasets.make_circles(10, random_state=0)[1]
datasets.make_classification(10, random_state=0)[1]
datasets.make_regression(5, 2, random_state=0)
datasets.make_multilabel_classification(5, random_state=0)
datasets.make_gaussian_quantiles(n_samples=6, random_state=0)[1]
datasets.make_hastie_10_2(5, random_state=0)[1]
datasets.make_friedman1(3, random_state=0)[1]
datasets.make_s_curve(3, random_state=0)[1]
datasets.make_sparse_uncorrelated(3, random_state=0)[1]
datasets.make_biclusters((4, 4), 2, random_state=0)[1]
datasets.make_checkerboard((4, 4), 2, random_state=0)[1]
datasets.make_spd_matrix(2, random_state=0)
datasets.load_svmlight_file(__import__("io").BytesIO(b"1 1:2 3:4000000000\n0 2:5\n"))[0]
utils.resample(np.arange(10), random_state=0)
utils.resample(np.arange(10), replace=False, n_samples=4, stratify=np.arange(10) % 2, random_state=0)
utils.shuffle(np.arange(10), random_state=0)
utils.class_weight.compute_class_weight("balanced", classes=np.unique(y), y=y)
utils.class_weight.compute_sample_weight("balanced", three)[:3]
utils.murmurhash3_32(np.arange(3, dtype=np.int32))
utils.murmurhash3_32("abc", positive=True)
utils.random.sample_without_replacement(10, 3, random_state=0)
utils.random.sample_without_replacement(100, 3, method="tracking_selection", random_state=0)
utils.random.sample_without_replacement(100, 3, method="reservoir_sampling", random_state=0)
utils.random.sample_without_replacement(100, 90, method="pool", random_state=0)
utils.random.sample_without_replacement(2**31 - 1, 2, random_state=0)
utils.multiclass.type_of_target(np.array([1, 2, 2]))
utils.multiclass.unique_labels([1, 2], [3])
utils.multiclass.class_distribution(np.column_stack([y, three]))
utils.check_array(np.array([[1, 2]]))
utils.check_array([[1, 2**40]])
utils.check_X_y([[1, 2], [3, 4]], [0, 1])[1]
utils.check_random_state(0).randint(2**40)
utils.extmath.safe_sparse_dot(S, S.T).sum()
utils.extmath.weighted_mode([1, 2, 2], [1, 1, 1])
utils.extmath.row_norms(whole[-2:] * 10**5, squared=True)
utils.sparsefuncs.mean_variance_axis(S, axis=0)
utils.sparsefuncs.count_nonzero(S, axis=0)
utils.sparsefuncs.min_max_axis(S, axis=0)
utils.safe_mask(X, y > 0).sum()
list(utils.gen_even_slices(10, 3))
